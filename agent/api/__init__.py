"""The agent's gRPC interface; `make proto` regenerates the code beside `agent.proto`."""
