// SPDX-License-Identifier: Apache-2.0
#include "calls.h"

#include <stddef.h>
#include <sys/syscall.h>

#include "iotrace.h"

/* System calls whose entry begins the VFS layer, and those that submit many requests at once. */
static const struct {
	int number;
	enum iotrace_call kind;
} CALLS[] = {
	{SYS_read, IOTRACE_CALL_READ},	      {SYS_pread64, IOTRACE_CALL_READ},
	{SYS_readv, IOTRACE_CALL_READ},      {SYS_preadv, IOTRACE_CALL_READ},
	{SYS_preadv2, IOTRACE_CALL_READ},    {SYS_write, IOTRACE_CALL_WRITE},
	{SYS_pwrite64, IOTRACE_CALL_WRITE},   {SYS_writev, IOTRACE_CALL_WRITE},
	{SYS_pwritev, IOTRACE_CALL_WRITE},    {SYS_pwritev2, IOTRACE_CALL_WRITE},
	{SYS_fsync, IOTRACE_CALL_SYNC},      {SYS_fdatasync, IOTRACE_CALL_SYNC},
	{SYS_msync, IOTRACE_CALL_TIMED},      {SYS_sync_file_range, IOTRACE_CALL_SYNC},
	{SYS_syncfs, IOTRACE_CALL_TIMED},     {SYS_sync, IOTRACE_CALL_TIMED},
	{SYS_sendfile, IOTRACE_CALL_TIMED},   {SYS_copy_file_range, IOTRACE_CALL_TIMED},
	{SYS_splice, IOTRACE_CALL_TIMED},     {SYS_fallocate, IOTRACE_CALL_TIMED},
	{SYS_io_submit, IOTRACE_CALL_SUBMIT}, {SYS_io_uring_enter, IOTRACE_CALL_IO_URING},
};

/* What system calls mean to a span. Reads and writes of what is no socket are calls on files. */
static const struct {
	int number;
	enum iotrace_span_call kind;
} SPAN_CALLS[] = {
	{SYS_read, IOTRACE_SPAN_RECEIVE},     {SYS_readv, IOTRACE_SPAN_RECEIVE},
	{SYS_recvfrom, IOTRACE_SPAN_RECEIVE}, {SYS_recvmsg, IOTRACE_SPAN_RECEIVE},
	{SYS_recvmmsg, IOTRACE_SPAN_RECEIVE}, {SYS_write, IOTRACE_SPAN_SEND},
	{SYS_writev, IOTRACE_SPAN_SEND},      {SYS_sendto, IOTRACE_SPAN_SEND},
	{SYS_sendmsg, IOTRACE_SPAN_SEND},     {SYS_sendmmsg, IOTRACE_SPAN_SEND},
	{SYS_sendfile, IOTRACE_SPAN_SENDFILE}, {SYS_pread64, IOTRACE_SPAN_FILE},
	{SYS_preadv, IOTRACE_SPAN_FILE},      {SYS_preadv2, IOTRACE_SPAN_FILE},
	{SYS_pwrite64, IOTRACE_SPAN_FILE},    {SYS_pwritev, IOTRACE_SPAN_FILE},
	{SYS_pwritev2, IOTRACE_SPAN_FILE},    {SYS_fsync, IOTRACE_SPAN_FILE},
	{SYS_fdatasync, IOTRACE_SPAN_FILE},   {SYS_msync, IOTRACE_SPAN_FILE},
	{SYS_sync_file_range, IOTRACE_SPAN_FILE}, {SYS_syncfs, IOTRACE_SPAN_FILE},
	{SYS_sync, IOTRACE_SPAN_FILE},	      {SYS_fallocate, IOTRACE_SPAN_FILE},
	{SYS_copy_file_range, IOTRACE_SPAN_FILE}, {SYS_futex, IOTRACE_SPAN_LOCK},
};

void calls_of_io(__u8 *table)
{
	for (size_t i = 0; i < sizeof(CALLS) / sizeof(CALLS[0]); i++)
		table[CALLS[i].number] = CALLS[i].kind;
}

void calls_of_spans(__u8 *table)
{
	for (size_t i = 0; i < sizeof(SPAN_CALLS) / sizeof(SPAN_CALLS[0]); i++)
		table[SPAN_CALLS[i].number] = SPAN_CALLS[i].kind;
}
