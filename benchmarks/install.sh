#!/bin/sh
# Install a clone with pip, pipx and uv, or as an image, and run what came of it.
#     sh benchmarks/install.sh python3.11 python3.12 python3.13 podman
# Each Python that is named takes a minute or two, an image (podman or docker) some more: it runs
# without network and root. Ends with status 0 if all of them ran a pair.
set -eu
project=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
git clone --quiet "$project" "$place/clone"
python3 -m venv "$place/tools"
"$place/tools/bin/pip" install --quiet pipx uv
export PIPX_HOME="$place/pipx" PIPX_BIN_DIR="$place/pipx-bin"
export UV_TOOL_DIR="$place/uv" UV_TOOL_BIN_DIR="$place/uv-bin"

try() { # with what, and the command
    mkdir "$place/work"
    (cd "$place/work" && "$2" phantom --size 700x900 && "$2" run --cores 2) > "$place/said" 2>&1 ||
        { cat "$place/said"; exit 1; }
    grep --quiet 'summary.tsv: 1 ok' "$place/said"
    echo "$1: $("$2" --version), 1 ok"
    rm -rf "$place/work"
}

make_image() { # with what
    "$1" build --quiet --file "$place/clone/containers/Dockerfile" --tag unglow-tried "$place/clone"
    user="--user $(id -u):$(id -g)"
    if [ "$(id -u)" = 0 ]; then
        user=
        chmod 711 "$place"
        umask 0 # the user of the image writes into the directory of root
    elif [ "$1" = podman ]; then
        user="--userns keep-id $user"
    fi
    cat > "$place/unglow" << END
#!/bin/sh
exec $1 run --rm --network none $user --volume "\$PWD":/work unglow-tried "\$@"
END
    chmod 755 "$place/unglow"
}

for python in "$@"; do
    case $python in
        podman | docker)
            make_image "$python"
            try "image of $python" "$place/unglow"
            continue
            ;;
    esac
    "$python" -m venv "$place/env"
    "$place/env/bin/pip" install --quiet "$place/clone"
    try "pip, $("$python" --version)" "$place/env/bin/unglow"
    "$place/tools/bin/pipx" install --python "$python" "$place/clone" > /dev/null
    try "pipx, $("$python" --version)" "$PIPX_BIN_DIR/unglow"
    "$place/tools/bin/pipx" uninstall unglow > /dev/null
    "$place/tools/bin/uv" tool install --quiet --python "$python" "$place/clone"
    try "uv, $("$python" --version)" "$UV_TOOL_BIN_DIR/unglow"
    "$place/tools/bin/uv" tool uninstall --quiet unglow
    rm -rf "$place/env"
done
