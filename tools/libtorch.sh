# Sourced by tools/setup and tools/setup_torch: fetches LibTorch, as the PyTorch wheel has it. Bash, after
# tools/messages.sh. Before anything is fetched, `unpacked` must be set: a folder with a usr/ into which Debian
# packages may have been unpacked, Debian's wheel of pip among them.

torch_version=2.11.0
torch_glibc=2.28  # the oldest the wheel runs with (manylinux_2_28)

# torch_is_there DIR [FILE...]: whether DIR holds LibTorch of that version with what a program loads, and these files.
torch_is_there() {
  local dir=$1 file
  shift
  for file in version.py lib/libtorch_cpu.so lib/libc10.so runtime/libcudart.so.13 runtime/libcupti.so.13 "$@"; do
    [[ -e $dir/$file ]] || return 1
  done
  [[ $(version_of_torch "$dir") == "$torch_version" ]]
}

# version_of_torch DIR: "2.11.0"; nothing if DIR does not say it.
version_of_torch() {
  cat "$1"/{version.py,build-version} 2>/dev/null | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n 1 || true
}

# Whether this system can run the wheel's libraries. `who` fetches them.
check_machine() {
  local who=$1 glibc
  [[ $(uname -sm) == "Linux x86_64" ]] ||
    die "$who fetches LibTorch for Linux on x86_64, and this is $(uname -sm)" \
      "set SPILLWAY_TORCH to an installed LibTorch $torch_version"
  glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || true
  glibc=${glibc#glibc }
  [[ -n $glibc && $(printf '%s\n' "$torch_glibc" "$glibc" | sort -V | head -n 1) == "$torch_glibc" ]] ||
    die "LibTorch $torch_version needs glibc $torch_glibc or later, and this system has ${glibc:-another C library}" \
      "use a newer system (Debian 12 has 2.36), or set SPILLWAY_TORCH to a LibTorch built for this one"
}

# Sets `pip`: the installed one, or straight from Debian's wheel of it. Fails if there is none.
find_pip() {
  if python3 -c "import pip" >/dev/null 2>&1; then
    pip=(python3 -m pip)
    return
  fi
  local wheel
  for wheel in "$unpacked"/usr/share/python-wheels/pip-*.whl /usr/share/python-wheels/pip-*.whl; do
    if [[ -e $wheel ]]; then
      pip=(python3 "$wheel/pip")
      # Debian's pip trusts what the package ca-certificates lists when it is installed.
      if [[ ! -e /etc/ssl/certs/ca-certificates.crt && -z ${PIP_CERT:-} &&
        -d $unpacked/usr/share/ca-certificates/mozilla ]]; then
        cat "$unpacked"/usr/share/ca-certificates/mozilla/*.crt >"$unpacked/ca-bundle.crt"
        export PIP_CERT=$unpacked/ca-bundle.crt
      fi
      return
    fi
  done
  return 1
}

# fetch_wheels LIST NEW [PIP-ARGUMENTS...]: what the list names, into NEW/wheels. For one fixed
# Python, so that every machine gets the same files; none of it is run.
fetch_wheels() {
  local list=$1 new=$2
  shift 2
  mkdir -p "$new"/{wheels,tmp} # its own temporary folder: /tmp may be small
  TMPDIR=$new/tmp "${pip[@]}" download --quiet "$@" --disable-pip-version-check --no-input \
    --no-deps --require-hashes --only-binary=:all: --implementation cp --python-version 3.11 \
    --abi cp311 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_25_x86_64 \
    --platform manylinux2014_x86_64 --no-cache-dir -d "$new/wheels" -r "$list" >&2 </dev/null
}

# fetch_torch LIST PARENT build|run: LibTorch into PARENT/torch, over one that is there; PARENT/torch.new is used
# meanwhile. build: with headers and CUDA's parts; run: what a program for the CPU loads. REQUIRES: find_pip.
fetch_torch() {
  local list=$1 parent=$2 kind=$3
  local new=$parent/torch.new start=$EPOCHREALTIME free need=1700 size="about 1 GB" bar=off
  if [[ $kind == run ]]; then need=1100 size="460 MB"; fi
  free=$(free_mib "$parent")
  ((free >= need)) || die "LibTorch needs $need MiB in $parent while it is unpacked, and $free MiB are free" \
    "free some space, or set SPILLWAY_TORCH to an installed LibTorch"
  say "setup: LibTorch $torch_version: fetching 531 MB, unpacked $size, into $parent/torch"
  [[ ! -t 2 ]] || bar=on
  if ! fetch_wheels "$list" "$new" --progress-bar $bar; then
    rm -rf "$new"
    die "pip could not fetch torch==$torch_version, nvidia-cuda-runtime, nvidia-cuda-cupti" \
      "the lines above say why. Run this again when the network is back; where it checks" \
      "certificates with its own, PIP_CERT=FILE names that; or set SPILLWAY_TORCH to an" \
      "installed LibTorch $torch_version"
  fi
  python3 - "$new" "$kind" <<'PYTHON' || { free=$(free_mib "$parent"); rm -rf "$new"; die "could not unpack LibTorch into $new" "the lines above say why; $free MiB were free there"; }
import glob, os, shutil, sys, zipfile

new, kind = sys.argv[1:]

def copy(archive, name, to):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    with archive.open(name) as source, open(to, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)

# Not linked to: Python's binding, and CUDA parts that only a running GPU program loads.
unused = ("lib/libtorch_python", "lib/libtorch_cuda_linalg", "lib/libshm", "lib/libtorch_nvshmem",
          "lib/libcaffe2_nvrtc")
if kind == "run":
    unused += ("lib/libtorch_cuda", "lib/libc10_cuda", "include/")
with zipfile.ZipFile(glob.glob(new + "/wheels/torch-*.whl")[0]) as torch:
    for name in torch.namelist():
        inner = name[len("torch/"):] if name.startswith("torch/") else ""
        if name.endswith("/") or inner.startswith(unused):
            continue
        if inner == "version.py" or inner.startswith("include/") or (
                inner.startswith("lib/") and ".so" in inner):
            copy(torch, name, os.path.join(new, inner))
        elif ".dist-info/" in name and os.path.basename(name) in ("LICENSE", "NOTICE"):
            copy(torch, name, os.path.join(new, os.path.basename(name)))
for library in ("libcudart.so.13", "libcupti.so.13"):
    for wheel in glob.glob(new + "/wheels/nvidia_*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if os.path.basename(name) == library:
                    copy(archive, name, os.path.join(new, "runtime", library))
for folder in ("/wheels", "/tmp"):
    shutil.rmtree(new + folder)
PYTHON
  torch_is_there "$new" || { rm -rf "$new"; die "the packages of LibTorch lack files that they should have" \
    "does the index that pip is set up with have another torch==$torch_version?"; }
  rm -rf "$parent/torch.old"
  # -h: also one that is a link to an installed LibTorch.
  [[ ! -e $parent/torch && ! -h $parent/torch ]] || mv -T "$parent/torch" "$parent/torch.old"
  mv -T "$new" "$parent/torch"
  rm -rf "$parent/torch.old"
  say "setup: LibTorch is there ($(du -sh "$parent/torch" | cut -f1)B, $(seconds_since "$start") s)"
}
