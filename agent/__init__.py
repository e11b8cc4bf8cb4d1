"""The agent: one per node; starts and stops the tracer and the load client, hands over what they wrote."""
