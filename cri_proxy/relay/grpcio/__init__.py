"""The second relay, on grpcio: the reference for the splice, chosen by ``--relay grpc``."""
