#!/usr/bin/env bash
# A current Neovim or Helix for the tests, beside what is installed: `.cache/neovim/nvim`, `.cache/helix/hx`, made of the
# packages of Debian sid (or of the suite named), their C library included. They are fetched and checked by an apt with
# folders of its own and unpacked there; nothing is installed.
#
#     tests/editor/current.sh neovim|helix [SUITE]
set -euo pipefail
cd "$(dirname "$0")/../.."
suite=${2:-sid}
folder=$PWD/.cache/$1
case $1 in
  neovim) package=neovim program=nvim file=usr/bin/nvim runtime=VIMRUNTIME=usr/share/nvim/runtime ;;
  helix) package=hx program=hx file=usr/lib/hx/hx runtime=HELIX_RUNTIME=usr/lib/hx/runtime ;;
  *) echo "neovim or helix, not $1" >&2; exit 2 ;;
esac
[ -x "$folder/$program" ] && exit 0
for tool in apt-get dpkg-deb; do
  command -v $tool >/dev/null || { echo "no $tool here: current editors are fetched on Debian and Ubuntu only" >&2; exit 1; }
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
apt-get -qq --yes --download-only -o Debug::NoLocking=true install $package >/dev/null
for archive in "$folder"/apt/archives/*.deb; do
  dpkg-deb --extract "$archive" "$folder/root"
done
rm -rf "$folder/apt"

cat >"$folder/$program" <<RUN
#!/bin/sh
# The editor under the C library that it was built for; what it starts runs under the machine's own.
root=\$(dirname "\$(readlink -f "\$0")")/root
libraries=\$root/usr/lib/$(uname -m)-linux-gnu
export ${runtime%%=*}="\$root/${runtime#*=}"
exec "\$libraries"/ld-linux-*.so.* --library-path "\$libraries" "\$root/$file" "\$@"
RUN
chmod +x "$folder/$program"
"$folder/$program" --version | head -1
