#!/usr/bin/env bash
# Prints the name of every C++ file of ours (what git tracks or would), each closed by a zero byte.
cd "$(dirname "$0")/.." || exit 1
exec git ls-files -z --cached --others --exclude-standard -- "*.cc" "*.h"
