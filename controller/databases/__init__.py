"""What stratabench knows of each database; the only place that names one."""
