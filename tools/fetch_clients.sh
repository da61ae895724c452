#!/bin/sh
# Fetches the Claude Code clients that the end-to-end tests run, once, from the npm registry.
#
# Pinned by version and checksum, kept in GIT_MEM_TEST_CACHE (~/.cache/git-mem-test). The
# client is one native program in a platform package: nothing is installed, no script of
# it runs here. Where it cannot be had (no npm, no network, another platform) this says
# so and exits 0: the tests that need it are skipped then, visibly.
set -u
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}
package=@anthropic-ai/claude-code-linux-x64

fetch() { # VERSION SHA512 (base64, as the registry states it)
  target=$cache/claude-$1
  [ -x "$target/claude" ] && return 0
  [ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || { echo "-- client $1: no pinned package for $(uname -s) $(uname -m)"; return 0; }
  command -v npm >/dev/null 2>&1 || { echo "-- client $1: no npm here"; return 0; }
  echo "== fetching client $1"
  work=$cache/.new.$$
  rm -rf "$work" && mkdir -p "$work" || return 0
  if (cd "$work" && npm pack --silent "$package@$1" >/dev/null 2>"$work/npm.log"); then
    sum=$("${PYTHON:-python3}" -c 'import base64, hashlib, sys; print(base64.b64encode(hashlib.file_digest(open(sys.argv[1], "rb"), "sha512").digest()).decode())' "$work"/*.tgz)
    if [ "$sum" != "$2" ]; then
      echo "-- client $1: the package has another checksum than the pinned one; not used"
    elif tar -xzf "$work"/*.tgz -C "$work" && chmod 755 "$work/package/claude"; then
      rm -rf "$target"
      mv "$work/package" "$target"
    fi
  else
    echo "-- client $1: npm cannot fetch it: $(tail -n 1 "$work/npm.log")"
  fi
  rm -rf "$work"
}

fetch 2.1.330 9Gn+V7DtJ8M1nztP9CeDVl9g3RtrepI7rOFTyPRRnZe8D6zebIHKmC7OvBauucuAP0X0k85SDN/LPVZyjsGezQ==
fetch 2.1.197 rIlKmrY0QMyHgPRX/MYWNj039vbypICvI9jVe3rs9Xy2RnNklySjyPxqh62QadznzoftEO23uYQ1tFePcQ//bg==
exit 0
