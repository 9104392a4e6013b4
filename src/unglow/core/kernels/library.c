/* What the library says of itself. */
#include "kernels.h"

const char *unglow_sources(void) { return UNGLOW_SOURCES; }
