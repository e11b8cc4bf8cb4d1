# SPDX-License-Identifier: Apache-2.0
"""Three to seven hosts with systemd, ssh, address and disk of their own on one Linux machine."""
