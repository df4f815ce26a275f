#!/usr/bin/env bash
# A current Neovim for the tests, beside the one that is installed: `.cache/neovim/nvim`, made of the packages of Debian
# sid (or of the suite named), their C library included. They are fetched and checked by an apt with folders of its
# own and unpacked there; nothing is installed.
#
#     tests/editor/neovim/setup.sh [SUITE]
set -euo pipefail
cd "$(dirname "$0")/../../.."
suite=${1:-sid}
folder=$PWD/.cache/neovim
[ -x "$folder/nvim" ] && exit 0
for program in apt-get dpkg-deb; do
  command -v $program >/dev/null || { echo "no $program here: a current Neovim is fetched on Debian and Ubuntu only" >&2; exit 1; }
done
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keys ] || { echo "no $keys here: install debian-archive-keyring" >&2; exit 1; }

rm -rf "$folder"
mkdir -p "$folder"/apt/{lists,archives}/partial "$folder"/apt/etc/apt.conf.d "$folder"/root
: >"$folder/apt/status"
echo "deb [signed-by=$keys] http://deb.debian.org/debian $suite main" >"$folder/apt/sources.list"
cat >"$folder/apt/apt.conf" <<CONF
Dir::Etc "$folder/apt/etc";
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt";
Dir::Cache::archives "$folder/apt/archives";
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
# A mirror may lag behind by more than a release of sid is valid; its signature is checked all the same.
Acquire::Check-Valid-Until "false";
CONF
export APT_CONFIG=$folder/apt/apt.conf
apt-get -qq update
apt-get -qq --yes --download-only -o Debug::NoLocking=true install neovim >/dev/null
for package in "$folder"/apt/archives/*.deb; do
  dpkg-deb --extract "$package" "$folder/root"
done
rm -rf "$folder/apt"

cat >"$folder/nvim" <<'RUN'
#!/bin/sh
# Neovim under the C library that it was built for; what it starts runs under the machine's own.
root=$(dirname "$(readlink -f "$0")")/root
libraries=$root/usr/lib/$(uname -m)-linux-gnu
export VIMRUNTIME="$root/usr/share/nvim/runtime"
exec "$libraries"/ld-linux-*.so.* --library-path "$libraries" "$root/usr/bin/nvim" "$@"
RUN
chmod +x "$folder/nvim"
"$folder/nvim" --version | head -1
