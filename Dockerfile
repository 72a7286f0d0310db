# syntax=docker/dockerfile:1
# The product's own image: a wheel built in one stage, installed in the next, run by a plain user.
FROM python:3.12-slim-bookworm AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY pegas_memory ./pegas_memory
COPY migrations ./migrations
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim-bookworm
LABEL org.opencontainers.image.title="pegas-memory" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    LANG=C.UTF-8 \
    PEGAS_HOME=/var/lib/pegas-memory
RUN groupadd --system --gid 10001 pegas \
    && useradd --system --uid 10001 --gid pegas --home-dir /var/lib/pegas-memory --create-home \
       --shell /usr/sbin/nologin pegas \
    && chmod 0700 /var/lib/pegas-memory
COPY --from=build /wheels /wheels
# --compile: at run time the packages folder is not writable, and start-up without .pyc files is slow.
RUN pip install --compile /wheels/*.whl && rm -r /wheels
USER pegas
WORKDIR /var/lib/pegas-memory
VOLUME /var/lib/pegas-memory
HEALTHCHECK --interval=60s --timeout=20s --start-period=30s --retries=3 \
    CMD ["pegas-memory", "status", "--json"]
ENTRYPOINT ["pegas-memory"]
CMD ["mcp"]
