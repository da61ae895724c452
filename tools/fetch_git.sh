#!/bin/sh
# Builds a newer git from Debian's sources, once, for the tests of reftable and SHA-256.
#
# Pinned by version and checksum, kept in GIT_MEM_TEST_CACHE (~/.cache/git-mem-test). apt fetches the
# source with a configuration of its own: the machine's list of sources stays as it is. Only what
# local repositories need is built, which takes about a minute on two cores. Where it cannot be had
# (no apt, no compiler, Debian has moved on) this says so and exits 0: the tests are run with the
# machine's git alone then, visibly.
set -u
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}
version=2.55.0
sum=457fdb04dc8728e007d4688695e6912e6f680727920f2a40bf11eacc17505357
target=$cache/git-$version
keys=/usr/share/keyrings/debian-archive-keyring.gpg

[ -x "$target/usr/bin/git" ] && exit 0
for program in apt-get make cc sha256sum; do
  command -v "$program" >/dev/null 2>&1 || { echo "-- git $version: no $program here"; exit 0; }
done
[ -f "$keys" ] || { echo "-- git $version: the keys of Debian's archive are not here"; exit 0; }
printf '#include <zlib.h>\n' | cc -E - >/dev/null 2>&1 || { echo "-- git $version: no zlib.h here"; exit 0; }

echo "== building git $version"
work=$cache/.git.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/made" || exit 0
cd "$work" || exit 0
for suite in sid forky; do
  echo "deb-src [signed-by=$keys] http://deb.debian.org/debian $suite main"
done >sources.list
apt() {
  apt-get -q -o Dir::State="$work/state" -o Dir::Cache="$work/cache" -o Dir::Etc::sourcelist="$work/sources.list" \
    -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=root "$@"
}
if ! { apt update && apt source --download-only --tar-only "git=1:$version-1"; } >apt.log 2>&1; then
  echo "-- git $version: apt cannot fetch it: $(tail -n 1 apt.log)"
  exit 0
fi
if [ "$(sha256sum <"git_$version.orig.tar.xz")" != "$sum  -" ]; then
  echo "-- git $version: the source has another checksum than the pinned one; not used"
  exit 0
fi
# RUNTIME_PREFIX: it finds its parts wherever the cache lies. The rest leaves out what local repositories do not need.
build() {
  make -s -C "git-$version" -j2 RUNTIME_PREFIX=1 prefix=/usr gitexecdir=libexec/git-core \
    template_dir=share/git-core/templates sysconfdir=etc CFLAGS=-O1 INSTALL_SYMLINKS=1 SKIP_DASHED_BUILT_INS=1 \
    NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_OPENSSL=1 NO_PERL=1 NO_PYTHON=1 NO_RUST=1 NO_TCLTK=1 \
    TEST_PROGRAMS='' UNIT_TEST_PROGS='' CLAR_TEST_PROG='' test_bindir_programs='' DESTDIR="$work/made" "$@"
}
if tar -xf "git_$version.orig.tar.xz" && build all install >make.log 2>&1 && "$work/made/usr/bin/git" version >/dev/null; then
  rm -rf "$target"
  mv "$work/made" "$target"
else
  echo "-- git $version: it cannot be built: $(tail -n 1 make.log)"
fi
exit 0
