# unglow without Python, compiler or network on the machine: docs/install.md.
#   podman build --tag unglow .        or: docker build --tag unglow .
#   podman run --rm --network none --volume "$PWD":/work unglow run --cores 2
FROM debian:bookworm-slim AS build
RUN apt-get update -q \
 && apt-get install -yq --no-install-recommends ca-certificates gcc libc6-dev python3-venv
COPY . /source
RUN python3 -m venv /opt/unglow \
 && /opt/unglow/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /source \
 && /opt/unglow/bin/pip install --no-cache-dir /wheel/*.whl \
 && /opt/unglow/bin/pip uninstall --yes pip setuptools

FROM debian:bookworm-slim
# mawk, ps and the like are not needed; `which` is in debianutils
RUN apt-get update -q \
 && apt-get install -yq --no-install-recommends python3 \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY --from=build /opt/unglow /opt/unglow
# Any user may run it (--user), on a read-only root with a /tmp: what is computed goes to /work,
# caches go to /tmp.
ENV PATH=/opt/unglow/bin:$PATH LANG=C.UTF-8 HOME=/tmp
USER 1000:1000
WORKDIR /work
ENTRYPOINT ["unglow"]
CMD ["run"]
