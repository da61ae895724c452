#!/bin/sh
# Fetches what the end-to-end tests run from the npm registry, once: Claude Code clients, axe-core.
#
# Pinned by version and checksum, kept in GIT_MEM_TEST_CACHE (~/.cache/git-mem-test). The
# client is one native program in a platform package: nothing is installed, no script of
# it runs here. Where it cannot be had (no npm, no network, another platform) this says
# so and exits 0: the tests that need it are skipped then, visibly.
set -u
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}

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

fetch() { # VERSION SHA512
  target=$cache/claude-$1
  [ -x "$target/claude" ] && return 0
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "-- client $1: no pinned package for $(uname -s) $(uname -m)"; return 0; }
  if package "@anthropic-ai/claude-code-linux-x64@$1" "$2" && chmod 755 "$work/package/claude"; then
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

command -v npm >/dev/null 2>&1 || { echo "-- no npm here: what is not in $cache yet is not fetched"; exit 0; }
fetch 2.1.330 9Gn+V7DtJ8M1nztP9CeDVl9g3RtrepI7rOFTyPRRnZe8D6zebIHKmC7OvBauucuAP0X0k85SDN/LPVZyjsGezQ==
fetch 2.1.197 rIlKmrY0QMyHgPRX/MYWNj039vbypICvI9jVe3rs9Xy2RnNklySjyPxqh62QadznzoftEO23uYQ1tFePcQ//bg==
fetch_axe 4.10.3 Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg==
exit 0
