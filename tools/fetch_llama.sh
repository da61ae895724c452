#!/bin/sh
# Builds llama-cpp-python from its source on PyPI, once, for the tests of the language model.
#
# Pinned by version and checksum, kept as a wheel in GIT_MEM_TEST_CACHE (~/.cache/git-mem-test): nine
# minutes of processor time. Without what no test needs (vision, OpenMP), and for any processor with
# AVX2, since the cache may move. Where it cannot be had (no compiler, no network) this says so and
# exits 0: the tests that need it are skipped then, visibly.
set -u
cache=${GIT_MEM_TEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/git-mem-test}
python=${PYTHON:-python3}
version=0.3.36
sum=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e

ls "$cache"/llama_cpp_python-$version-*.whl >/dev/null 2>&1 && exit 0
command -v c++ >/dev/null 2>&1 || { echo "-- llama-cpp-python: no c++ here"; exit 0; }
echo "== building llama-cpp-python $version: some minutes"
work=$cache/.llama.$$
trap 'rm -rf "$work"' EXIT
mkdir -p "$work" || exit 0
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-2}"
export CMAKE_ARGS="-DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DLLAVA_BUILD=OFF"
echo "llama-cpp-python==$version --hash=sha256:$sum" >"$work/pinned"
if "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --require-hashes -r "$work/pinned" -w "$work" >"$work/log" 2>&1; then
  rm -f "$cache"/llama_cpp_python-*.whl
  mv "$work"/llama_cpp_python-*.whl "$cache"
else
  echo "-- llama-cpp-python: it cannot be built: $(tail -n 1 "$work/log")"
fi
exit 0
