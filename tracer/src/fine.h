/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms with four buckets to each power of two (bpf/histogram.bpf.h), as columns of CSV. */
#ifndef FINE_H
#define FINE_H

#include <stdio.h>

#include "iotrace.h"

/* Writes ",mean,p50,p99" of what has come since `before`; three empty columns when nothing has. */
void fine_write(FILE *file, const struct iotrace_fine *now, const struct iotrace_fine *before);

#endif
