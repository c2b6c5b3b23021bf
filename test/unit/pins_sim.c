/* SPDX-License-Identifier: Apache-2.0 */
/* Transport sim as the cases of unit-pins change it: the program is linked with
 * --wrap=backend_sim. */
#include "backend/backend.h"

extern struct backend __wrap_backend_sim;
struct backend __wrap_backend_sim;
