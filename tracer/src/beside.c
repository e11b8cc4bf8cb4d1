// SPDX-License-Identifier: Apache-2.0
#include "beside.h"

#include <errno.h>

#include "say.h"

/* What the visitors of the kernel's tables need. */
struct step {
	struct beside *beside;
	const struct anchor *anchor;
	long long mono_ns;
};

int beside_open(struct beside *beside, const struct options *options)
{
	int code = context_open(&beside->context, options);

	if (code == EXIT_OK)
		code = peers_open(&beside->peers, options);
	if (code == EXIT_OK)
		code = spans_open(&beside->spans, options);
	return code;
}

int beside_write_columns(struct beside *beside)
{
	int code = context_write_columns(&beside->context);

	if (code == EXIT_OK)
		code = peers_write_columns(&beside->peers);
	if (code == EXIT_OK)
		code = spans_write_columns(&beside->spans);
	return code;
}

void beside_begin(struct beside *beside, long long mono_ns)
{
	context_begin(&beside->context, mono_ns);
	peers_begin(&beside->peers, mono_ns);
	spans_begin(&beside->spans, mono_ns);
}

static bool step_context(const struct step *step, struct probe *probe)
{
	struct context_file *context = &step->beside->context;
	struct iotrace_vfs_table calls = {0};
	struct iotrace_context kernel;

	if (!context->csv.file)
		return true;
	probe_context(probe, &kernel);
	if (context->has_calls)
		probe_vfs(probe, &calls);
	return context_step(context, &kernel, &calls, step->anchor, step->mono_ns);
}

static void handle_peer(void *context, const struct iotrace_address *address, const struct iotrace_peer *peer)
{
	struct step *step = context;

	peers_peer(&step->beside->peers, address, peer, step->anchor, step->mono_ns);
}

static bool step_peers(struct step *step, struct probe *probe)
{
	if (!step->beside->peers.csv.file)
		return true;
	probe_peers(probe, handle_peer, step);
	return peers_end(&step->beside->peers, step->mono_ns);
}

static void handle_process(void *context, __u32 pid, const struct iotrace_process *process, bool gone)
{
	struct step *step = context;

	spans_process(&step->beside->spans, pid, process, step->anchor, step->mono_ns);
	if (gone)
		spans_forget(&step->beside->spans, pid);
}

static void handle_sample(void *context, const struct iotrace_span *span)
{
	struct step *step = context;

	spans_sample(&step->beside->spans, span, step->anchor);
}

static bool step_spans(struct step *step, struct probe *probe)
{
	if (!step->beside->spans.processes.file)
		return true;
	probe_spans(probe, &(struct span_reader){handle_process, handle_sample, step});
	return spans_end(&step->beside->spans, step->mono_ns);
}

#define FILES 4

static const struct csv *file_at(const struct beside *beside, int which)
{
	const struct csv *files[FILES] = {&beside->context.csv, &beside->peers.csv, &beside->spans.processes,
					  &beside->spans.samples};

	return files[which];
}

const struct claim *beside_step(struct beside *beside, struct probe *probe, const struct anchor *anchor)
{
	struct step step = {beside, anchor, clock_now(CLOCK_MONOTONIC)};

	if (step_context(&step, probe) && step_peers(&step, probe) && step_spans(&step, probe))
		return NULL;
	if (!errno)
		errno = ENOSPC;
	for (int i = 0; i < FILES - 1; i++)
		if (file_at(beside, i)->has_failed)
			return &file_at(beside, i)->claim;
	return &file_at(beside, FILES - 1)->claim;
}

const struct claim *beside_named(const struct beside *beside, const char *path)
{
	for (int i = 0; i < FILES; i++)
		if (claim_is_named(&file_at(beside, i)->claim, path))
			return &file_at(beside, i)->claim;
	return NULL;
}

const struct claim *beside_crowded(const struct beside *beside)
{
	for (int i = 0; i < FILES; i++) {
		const struct claim *claim = &file_at(beside, i)->claim;

		if (claim->is_open && claim->is_file && older_are_there(claim->path))
			return claim;
	}
	return NULL;
}

const struct claim *beside_taken_away(const struct beside *beside)
{
	for (int i = 0; i < FILES; i++) {
		const struct claim *claim = &file_at(beside, i)->claim;

		if (claim->is_open && claim->is_file && !claim_is_named(claim, claim->path))
			return claim;
	}
	return NULL;
}

const struct claim *beside_short_of_space(const struct beside *beside, const struct options *options)
{
	for (int i = 0; i < FILES; i++)
		if (claim_is_short_of_space(&file_at(beside, i)->claim, options))
			return &file_at(beside, i)->claim;
	return NULL;
}

void beside_close(struct beside *beside)
{
	context_close(&beside->context);
	peers_close(&beside->peers);
	spans_close(&beside->spans);
}
