"""What a request asks for, and what every pool and memory node has left."""
