/* SPDX-License-Identifier: Apache-2.0 */
/* Other communication libraries in the process of a test: opened, made to carry a message to
 * themselves, closed. Each call ends the test when it fails. */
#ifndef NEIGHBOURS_H
#define NEIGHBOURS_H

struct neighbour {
	const char *name;
	void *(*open)(void);
	void (*use)(void *self);
	void (*close)(void *self);
};

extern const struct neighbour neighbour_ucx, neighbour_fabric;

#endif
