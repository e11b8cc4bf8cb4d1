"""The I/O tracer (C, BPF) and the decoder of its records."""
