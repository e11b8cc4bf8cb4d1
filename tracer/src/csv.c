// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "csv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "say.h"

int csv_open(struct csv *csv, const char *option, const char *path, const struct options *options)
{
	*csv = (struct csv){.options = options};
	return claim_open(&csv->claim, option, path, options);
}

/* A part is no success to the C library. */
static ssize_t write_to_pipe(void *claim, const char *bytes, size_t size)
{
	return claim_write(claim, bytes, size) ? (ssize_t)size : 0;
}

/* The stream has a descriptor of its own, so the file stays claimed while streams come and go. */
static bool open_stream(struct csv *csv)
{
	int fd = -1;

	if (csv->claim.is_file) {
		fd = fcntl(csv->claim.fd, F_DUPFD_CLOEXEC, 0);
		csv->file = fd >= 0 ? fdopen(fd, "w") : NULL;
	} else {
		csv->file = fopencookie(&csv->claim, "w", (cookie_io_functions_t){.write = write_to_pipe});
	}
	if (!csv->file) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	csv->write_columns(csv->file);
	return true;
}

int csv_begin(struct csv *csv, void (*write_columns)(FILE *file))
{
	int code;

	if (!csv->claim.is_open)
		return EXIT_OK;
	csv->write_columns = write_columns;
	code = claim_begin(&csv->claim);
	if (code == EXIT_OK && !open_stream(csv)) {
		complain("allow more open files", strerror(errno), "--%s %s", csv->claim.option, csv->claim.path);
		return EXIT_OUTPUT;
	}
	return code;
}

static bool turn_over(struct csv *csv)
{
	char name[PATH_MAX];

	older_next(&csv->older, csv->claim.path, name);
	if (!claim_rotate(&csv->claim, name))
		return false;
	older_add(&csv->older, csv->claim.path, 0, csv->options->keep_files);
	fclose(csv->file);
	return open_stream(csv);
}

static bool flush(struct csv *csv)
{
	errno = 0;
	/* An error may lie back: what does not fit is written before. */
	if (fflush(csv->file) != 0 || ferror(csv->file))
		return false;
	if (!csv->options->rotate_bytes || ftello(csv->file) < csv->options->rotate_bytes)
		return true;
	return turn_over(csv);
}

bool csv_flush(struct csv *csv)
{
	if (csv->file)
		csv->has_failed = !flush(csv);
	return !csv->has_failed;
}

/* Of the character that begins there, in UTF-8; 0: none does. */
static int bytes_of_character(const unsigned char *at)
{
	int bytes = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;

	for (int i = 1; i < bytes; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	/* In more bytes than it takes, half of a pair of UTF-16, or beyond all that there are. */
	if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0) || (at[0] == 0xf0 && at[1] < 0x90) ||
	    (at[0] == 0xf4 && at[1] >= 0x90))
		return 0;
	return bytes;
}

void csv_text(FILE *file, const char *text)
{
	fputc('"', file);
	while (*text) {
		int bytes = bytes_of_character((const unsigned char *)text);

		if (*text == '"')
			fputc('"', file);
		if (bytes)
			fwrite(text, 1, bytes, file);
		else
			fputs("\xef\xbf\xbd", file);
		text += bytes ? bytes : 1;
	}
	fputc('"', file);
}

void csv_close(struct csv *csv)
{
	if (csv->file)
		fclose(csv->file);
	claim_close(&csv->claim);
	older_free(&csv->older);
	csv->file = NULL;
}
