#!/usr/bin/env bash
# Builds a real VS Code (code-server from npm) and its driver (playwright-core) in a folder outside the repository, with
# axe-core for the page of a run.
#
#   tests/editor/vscode/setup.sh [FOLDER]      default: $STARK_VSCODE_HOME or ~/.cache/stark-vscode-test
#
# Needs: node 20, a C++ compiler, ripgrep and chromium (Debian: apt-get install chromium ripgrep g++ make python3).
# The postinstall script of code-server builds everything at once and stops at the first optional module that does
# not build, so the modules are built here one by one, and only those that the editor cannot start without.
set -euo pipefail

home="${1:-${STARK_VSCODE_HOME:-$HOME/.cache/stark-vscode-test}}"
code_server_version=4.100.3
playwright_version=1.65.1
axe_version=4.14.1

for tool in node npm rg c++; do
  command -v "$tool" >/dev/null || { echo "setup.sh: '$tool' is missing; install it first" >&2; exit 2; }
done
# Header files of node itself, so that node-gyp downloads nothing where the distribution ships them.
node_prefix="$(dirname "$(dirname "$(readlink -f "$(command -v node)")")")"
if [ -f "$node_prefix/include/node/node.h" ]; then
  export npm_config_nodedir="$node_prefix"
fi

# Build scripts of some modules call npx, which must not ask.
export npm_config_yes=true

mkdir -p "$home"
cd "$home"
[ -f package.json ] || npm init -y >/dev/null
npm install --no-audit --no-fund --ignore-scripts "code-server@$code_server_version" "playwright-core@$playwright_version" \
  "axe-core@$axe_version"

server="$home/node_modules/code-server"
argon2="$home/node_modules/argon2"
if [ -z "$(find "$argon2/lib/binding" -name '*.node' 2>/dev/null)" ]; then
  (cd "$argon2" && npx node-pre-gyp rebuild --build-from-source)
fi

cd "$server/lib/vscode"
npm install --omit=dev --ignore-scripts --no-audit --no-fund
for module in @parcel/watcher @vscode/spdlog native-watchdog node-pty @vscode/deviceid; do
  npm rebuild "$module"
done
npm rebuild kerberos || echo "setup.sh: kerberos was not built (optional)"
mkdir -p node_modules/@vscode/ripgrep/bin
ln -sfn "$(command -v rg)" node_modules/@vscode/ripgrep/bin/rg
ln -sfn node_modules node_modules.asar
ln -sfn code-linux.sh bin/remote-cli/code-server
ln -sfn browser-linux.sh bin/helpers/browser.sh

node "$server/out/node/entry.js" --version
echo "setup.sh: ready in $home"
