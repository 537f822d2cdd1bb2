# What several scripts share; sourced, never run.

# uv does not read pip's configuration: hand on where pip was told to look.
follow_pip_configuration() { # a python that has pip
  local index
  index=$("${1:-python3}" -m pip config get global.index-url 2>/dev/null || true)
  index=${PIP_INDEX_URL:-$index}
  [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
  [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
}
