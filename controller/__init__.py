"""The controller: from an experiment and an inventory to a results folder."""
