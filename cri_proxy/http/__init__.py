"""The daemon's HTTP API over TCP and the admin socket, and the client that commands use."""
