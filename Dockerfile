# The parser in a small image, without a shell's help: run as an ordinary user, checked by its own `parser health`.
#
#   docker build -t parser .
#   docker run --rm -e SHIP_URL=ws://node:8080 -e REDIS_URL=redis://redis:6379 parser

FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /build
COPY . .
# Line numbers are four fifths of the file; names of functions stay.
RUN cargo build --locked --release --bin parser && strip --strip-debug target/release/parser

FROM debian:12.12-slim
# For wss://, rediss:// and https://.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /build/target/release/parser /usr/local/bin/
COPY config/container.yaml /etc/parser/parser.yaml
COPY tests/data/fork-240.shipcap.zst /usr/local/share/parser/demo.shipcap.zst
USER 65532:65532
EXPOSE 9090 9100
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["parser", "health", "--config", "/etc/parser/parser.yaml"]
ENTRYPOINT ["parser"]
CMD ["run", "--config", "/etc/parser/parser.yaml"]
