"""Protocol buffers: the .proto files and what is generated from them, nothing else."""

from windrow.extras import require

# Whoever comes here without them is told what to install.
require("google.protobuf")
require("grpc")
