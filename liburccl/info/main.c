/* SPDX-License-Identifier: Apache-2.0 */
#include "info.h"

#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: urccl_info [--transport LIST] [--json]   version, devices, plan and settings\n"
	"       urccl_info --plan [--transport LIST] [--json]\n"
	"                                                which way data goes: transports and NICs\n"
	"       urccl_info --doctor [--transport LIST] [--json]\n"
	"                                                what this machine lacks, and what to do\n"
	"       urccl_info --probe [HOST:PORT] [--transport LIST] [--json]\n"
	"                                                what the way there, or within here, gives\n"
	"       urccl_info --top [PID] [--interval S] [--once] [--json]\n"
	"                                                contexts of running processes; q: quit\n"
	"       urccl_info --dump PID                    a process's contexts, also a stuck one's\n";

struct options {
	const char *transport;
	const char *what; /* a PID, or the address for --probe */
	double interval;
	int json, plan, doctor, probe, top, dump, once, help, version;
};

static int options_parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		{"transport", required_argument, NULL, 't'},
		{"json", no_argument, NULL, 'j'},
		{"plan", no_argument, NULL, 'p'},
		{"doctor", no_argument, NULL, 'd'},
		{"probe", no_argument, NULL, 'P'},
		{"top", no_argument, NULL, 'T'},
		{"interval", required_argument, NULL, 'i'},
		{"once", no_argument, NULL, 'o'},
		{"dump", no_argument, NULL, 'D'},
		{"help", no_argument, NULL, 'h'},
		{"version", no_argument, NULL, 'v'},
		{NULL, 0, NULL, 0},
	};
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 't':
			o->transport = optarg;
			break;
		case 'j':
			o->json = 1;
			break;
		case 'p':
			o->plan = 1;
			break;
		case 'd':
			o->doctor = 1;
			break;
		case 'P':
			o->probe = 1;
			break;
		case 'T':
			o->top = 1;
			break;
		case 'o':
			o->once = 1;
			break;
		case 'D':
			o->dump = 1;
			break;
		case 'i':
			o->interval = strtod(optarg, &end);
			if (*end || !(o->interval >= 0.01 && o->interval <= 3600))
				return -1;
			break;
		case 'v':
			o->version = 1;
			break;
		case 'h':
			o->help = 1;
			break;
		default:
			return -1;
		}
	}
	if (optind < argc)
		o->what = argv[optind++];
	return optind < argc ? -1 : 0;
}

/* -1: the options do not go together. */
static int options_check(const struct options *o, pid_t *pid)
{
	char *end = NULL;
	long number = 0;

	if (o->plan + o->doctor + o->probe + o->top + o->dump > 1)
		return -1;
	if (o->transport && (o->top | o->dump))
		return -1;
	*pid = 0;
	if (o->probe)
		return o->once ? -1 : 0;
	if (o->what)
		number = strtol(o->what, &end, 10);
	if (o->what && (*end || number <= 0 || number > INT_MAX))
		return -1;
	*pid = (pid_t)number;
	if (o->what && !o->top && !o->dump)
		return -1;
	if ((o->dump && (!o->what || o->json)) || (o->once && !o->top))
		return -1;
	return o->top && o->json && !o->once ? -1 : 0;
}

int main(int argc, char **argv)
{
	struct options o = {.interval = 1};
	pid_t pid;

	if (options_parse(argc, argv, &o) || options_check(&o, &pid)) {
		fputs(usage, stderr);
		return INFO_USAGE;
	}
	if (o.help)
		return fputs(usage, stdout) < 0;
	if (o.version)
		return puts(urccl_version()) < 0;
	if (o.doctor)
		return doctor(o.transport, o.json);
	if (o.probe)
		return probe_run(o.what, o.transport, o.json);
	if (o.dump)
		return dump_process(pid);
	if (o.top)
		return top_run(pid, o.interval, o.once, o.json);
	return show_all(o.transport, o.plan, o.json);
}
