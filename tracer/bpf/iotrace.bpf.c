// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* All programs of the CO-RE backend. */
#include "log.bpf.h"
#include "completion.bpf.h"
#include "fentry.bpf.h"
#include "again.bpf.h"
#include "throttle.bpf.h"
#include "context.bpf.h"
#include "peer.bpf.h"
#include "span.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";
