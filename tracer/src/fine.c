// SPDX-License-Identifier: Apache-2.0
#include "fine.h"

/* The upper edge of bucket i: see fine_bucket() in bpf/histogram.bpf.h. */
static unsigned long long upper_edge(int bucket)
{
	int power = bucket / 4;

	if (bucket < 4 * 2)
		return bucket < 4 ? (unsigned long long)bucket + 1 : 4;
	return (1ULL << power) + (unsigned long long)(bucket % 4 + 1) * (1ULL << (power - 2));
}

/* Upper edge of the bucket in which the quantile of what has come since `before` lies. */
static unsigned long long quantile(const struct iotrace_fine *now, const struct iotrace_fine *before, unsigned permille)
{
	__u64 all = 0, seen = 0;

	for (int i = 0; i < IOTRACE_FINE_BUCKETS; i++)
		all += now->buckets[i] - before->buckets[i];
	for (int i = 0; i < IOTRACE_FINE_BUCKETS; i++) {
		seen += now->buckets[i] - before->buckets[i];
		if (seen * 1000 >= all * permille)
			return upper_edge(i);
	}
	return upper_edge(IOTRACE_FINE_BUCKETS - 1);
}

void fine_write(FILE *file, const struct iotrace_fine *now, const struct iotrace_fine *before)
{
	__u64 count = now->count - before->count;

	if (!count) { /* nothing to take a mean of */
		fputs(",,,", file);
		return;
	}
	fprintf(file, ",%.0f,%llu,%llu", (double)(now->sum - before->sum) / count, quantile(now, before, 500),
		quantile(now, before, 990));
}
