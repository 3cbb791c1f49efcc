#!/usr/bin/env bash
# Installs the wheel that lies in FOLDER into bare Debians, which have Python and pip but no compiler and no library of
# a codec, runs doctor and the demonstration there on both engines, and compares the hashes of the streams with those
# of this checkout. Usage: tools/wheel_check.sh FOLDER   Needs root and debootstrap; takes minutes, and the network.
# SUITES: the Debians to try, by default 12 (Python 3.11) and 13 (Python 3.13). MIRROR: where their packages come from.
# The package index is that of this machine: pip's settings, certificates and proxies are handed in.
set -euo pipefail
folder=$(realpath "$1")
cd "$(dirname "$0")/.."
suites=(${SUITES:-bookworm trixie})
mirror=${MIRROR:-http://deb.debian.org/debian}
mesh=pp=2,dp=2,cp=2,tp=2

fail() { echo "wheel-check: $*" >&2 && exit 1; }
[ "$(id -u)" -eq 0 ] || fail "making a Debian to install into needs root; run it as root, or with sudo"
command -v debootstrap >/dev/null ||
  fail "debootstrap is not there; run: apt-get install -y --no-install-recommends debootstrap"
wheels=("$folder"/overlord_data-*.whl)
[ -f "${wheels[0]}" ] && [ ${#wheels[@]} -eq 1 ] || fail "$folder does not hold one wheel; run \`make wheel\`"
wheel=${wheels[0]}

work=$(mktemp -d "${TMPDIR:-/tmp}/wheel-check.XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT

# What both sides do. Its last lines are the hashes, one engine a line.
cat >"$work/run.sh" <<SCRIPT
set -euo pipefail
overlord=\$1 python=\$2
cd "\$3"
"\$overlord" doctor
"\$overlord" demo --no-live --json embedded.json
"\$overlord" run demo/mix.yaml --mesh $mesh --engine processes --steps 200 --no-live --json processes.json
for engine in embedded processes; do
  "\$python" -c 'import json, sys; told = json.load(open(sys.argv[1])); print("HASHES", told["stream_hash"], told["content_hash"])' \$engine.json
done
SCRIPT

echo "wheel-check: the demonstration in this checkout"
mkdir "$work/here"
bash "$work/run.sh" "$PWD/.venv/bin/overlord" "$PWD/.venv/bin/python" "$work/here" >"$work/here.log" 2>&1 ||
  { cat "$work/here.log" && fail "it fails in this checkout"; }
grep '^HASHES' "$work/here.log" >"$work/expected"

# What the wheel brings must come from the wheel.
cat >"$work/install.sh" <<'SCRIPT'
set -euo pipefail
for tool in cc c++ gcc g++ clang ld make; do
  ! command -v $tool || { echo "this Debian has $tool"; exit 1; }
done
! ldconfig -p | grep -E 'lib(jpeg|spng|webp|sndfile|simdjson|arrow|av[a-z]+)\.so' ||
  { echo "this Debian has libraries that the wheel should bring"; exit 1; }
python3 -m venv /opt/overlord
/opt/overlord/bin/python -m pip install -q --disable-pip-version-check --only-binary=:all: /root/*.whl
/opt/overlord/bin/python /root/licence-check.py
SCRIPT
cat >"$work/licence-check.py" <<'SCRIPT'
from importlib.metadata import distribution
files = [str(file) for file in distribution("overlord-data").files]
libraries = [file for file in files if ".libs/" in file]
licences = [file for file in files if "licenses/third-party/" in file]
assert libraries and licences, files
print(f"inside: {len(libraries)} libraries, {len(licences)} licences of others")
SCRIPT

check_suite() {
  local suite=$1 root=$work/$1
  echo "wheel-check: making a Debian $suite"
  debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root" "$mirror" \
    >"$work/$suite.log" 2>&1 || { tail -n 20 "$work/$suite.log" && fail "debootstrap of $suite failed"; }
  cp /etc/resolv.conf /etc/hosts "$root/etc/"
  cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/"; fi
  cp "$wheel" "$work"/{run.sh,install.sh,licence-check.py} "$root/root/"
  local settings=()
  while IFS= read -r setting; do settings+=("$setting"); done \
    < <(env | grep -E '^(PIP_[A-Z_]+|(http|https|no|all)_proxy|(HTTP|HTTPS|NO|ALL)_PROXY)=' || true)
  # Mounts of a namespace of its own end with it, however that ends.
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1; shift
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount --bind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t tmpfs tmpfs "$root/tmp"
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@" chroot "$root" bash -c \
      "bash /root/install.sh && bash /root/run.sh /opt/overlord/bin/overlord /opt/overlord/bin/python /root"
  ' wheel-check "$root" "${settings[@]}" </dev/null >"$work/$suite.log" 2>&1 ||
    { cat "$work/$suite.log" && fail "the wheel does not work in Debian $suite"; }
  grep -E '^(inside|(ok|warn|fail) )' "$work/$suite.log" || true
  grep '^HASHES' "$work/$suite.log" >"$work/$suite.hashes" || true
  diff "$work/expected" "$work/$suite.hashes" || fail "the stream in Debian $suite is another one"
  echo "wheel-check: Debian $suite gives the stream of this checkout on both engines"
  rm -rf --one-file-system "$root"
}

for suite in "${suites[@]}"; do check_suite "$suite"; done
cat "$work/expected"
