# What the compose file's Prometheus is replaced by where no registry is reached: the same program, of Debian's package.
ARG BASE=debian:bookworm-slim
FROM ${BASE}
RUN apt-get update && apt-get install -y --no-install-recommends prometheus wget && apt-get clean && \
    rm -rf /var/lib/apt/lists/* && install -d -o nobody -g nogroup /prometheus
USER nobody
ENTRYPOINT ["/usr/bin/prometheus"]
