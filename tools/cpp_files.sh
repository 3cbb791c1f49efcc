#!/usr/bin/env bash
# Prints the name of every C++ file of ours, each closed by a zero byte.
cd "$(dirname "$0")/.." || exit 1
exec find . -type d \( -name '.?*' -o -name 'build*' -o -name node_modules \) -prune \
  -o -type f \( -name '*.cc' -o -name '*.h' \) -print0
