/* SPDX-License-Identifier: Apache-2.0 */
/* The maps of the BCC backend, and what stands in them before the programs run. */
#ifndef BCC_MAPS_H
#define BCC_MAPS_H

#include <stdbool.h>

#include "bcc.h"
#include "device.h"
#include "driver.h"
#include "options.h"

/* `maps`: all -1 before, which stays where none could be made. False with errno; when they are filled E2BIG: too many disks. */
bool bcc_maps_make(int maps[BCC_MAP_COUNT], const struct options *options);
bool bcc_maps_fill(const int maps[BCC_MAP_COUNT], const struct options *options, const struct devices *devices,
		   const struct driver_support *support, int cpus);

void bcc_maps_close(int maps[BCC_MAP_COUNT]);

#endif
