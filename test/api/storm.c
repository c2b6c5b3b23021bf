/* SPDX-License-Identifier: Apache-2.0 */
/* Random entries of all kinds over networks on which random things go wrong, on a simulated clock:
 * each entry ends once and in time, with its bytes where they belong or a reason; a buffer is left
 * alone once its entry has ended; a notification comes once and behind its data; and in the end
 * nothing is left over. Prints its seed; --help says what of it can be had again. */
#include <sys/random.h>
#include "crowd.h"
#include "held.h"
#include "meet.h"
#include "storm.h"

static const char help[] =
	"storm [--entries=N] [--seed=N] [--from=N] [--twice] [--transport=sim]\n"
	"\n"
	"  --entries=N  so many, in rounds of some 2500, each on a network of its own (30000)\n"
	"  --seed=N     of all that is drawn; it is printed\n"
	"  --from=N     the first round: to have a late one again without those before it\n"
	"  --twice      each round once more, and what came is compared where it must be the same\n"
	"\n"
	"What a round does hangs on the seed and its number alone, and what comes of it is the same to\n"
	"the last CQE, as long as only the simulated clock is gone by. It is not the same from where a\n"
	"peer is lost, connected again, or revokes its adverts: that is the work of control threads over\n"
	"a real socket, and takes real time, in which entries may pass that did not the last time. They\n"
	"also begin each round, before its time counts: where that takes a machine more than a second,\n"
	"the round goes another way, and can be had by running it again.\n";

#define WARM_ROUNDS 8u /* after which nothing is held that was not before */

static uint32_t tried; /* rounds run again that ought to be the same */
static uint64_t told;  /* what came at a in this round, in its order; FNV-1a (Fowler, Noll, Vo) */
static uint32_t exact; /* so far no control thread had anything to do with it */

static void tell(const struct urccl_cqe *cqe)
{
	const uint64_t words[] = {cqe->user_data, (uint64_t)cqe->res, cqe->flags};
	uint32_t i;

	if (urccl_cqe_kind(cqe) == URCCL_KIND_LOST || p.a.rails_told)
		exact = 0;
	for (i = 0; i < 3; i++)
		told = (told ^ words[i]) * 1099511628211ull;
}

static void turn(void)
{
	struct urccl_cqe cqe;

	side_turn(&p.a);
	side_turn(&p.b);
	while (p.b.ring && side_take_within(&p.b, NULL, 0, &cqe, NULL))
		on_b(&cqe);
	while (side_take_within(&p.a, NULL, 0, &cqe, NULL)) {
		tell(&cqe);
		on_a(&cqe);
	}
}

/* Until cond holds. */
#define TURN_UNTIL(cond)                                        \
	do {                                                    \
		uint64_t late = now_ns() + PAIR_LATE_NS;        \
		while (!(cond)) {                               \
			if (now_ns() > late) {                  \
				urccl_dump(p.a.ctx, 2);         \
				if (p.b.ctx)                    \
					urccl_dump(p.b.ctx, 2); \
			}                                       \
			CHECK(!is_late(late));                  \
			turn();                                 \
		}                                               \
	} while (0)

static uint64_t seed, first_round = 1;
static int twice;
static uint32_t revokes, restarts; /* in this round */
static uint32_t ticking;	   /* time is counted */
static uint32_t dies;		   /* no rail may be up for long */
static char address[PLACE_MAX];	   /* b's */

/* ---- what happens meanwhile ---- */

static int is_lost(void)
{
	struct urccl_peer_info info = {.size = sizeof(info)};
	int res = urccl_get_peer_info(p.a.ctx, p.a.peer, &info);

	CHECK(!res || res == -ESTALE);
	return res || info.state == URCCL_PEER_LOST;
}

/* And nobody said so. */
static int is_gone(void)
{
	doubtful = exact = 0;
	return is_lost();
}

static void import(void)
{
	struct urccl_sqe *sqe;

	if (connected && urccl_import(p.a.ctx, p.a.peer, &t.advert, 1, &t.remote))
		connected = 0; /* it was lost just now */
	if (!connected)
		return;
	sqe = next_sqe(0); /* what takes real time is over before time counts */
	urccl_prep_warm(sqe, p.a.peer);
	sqe->user_data = WARMING;
	warming = 1;
	CHECK_GE(urccl_submit(p.a.ring), 1);
	TURN_UNTIL(!warming);
}

static void advertise(void)
{
	const uint32_t all = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC;

	CHECK_EQ(urccl_advertise(p.b.ctx, t.region, 0, t.len, all, 0, &t.advert), 0);
}

static void freeze(int on)
{
	frozen = (uint32_t)on;
	causes.frozen |= frozen;
	urccl_sim_freeze(p.sim, on);
}

/* On a bad network that takes some tries, and more on a slow machine: to dial takes real time, and
 * the network's goes on meanwhile. */
static void connect_again(void)
{
	uint8_t blob[URCCL_METADATA_MAX];
	struct urccl_sqe *sqe;
	int len = urccl_metadata(p.b.ctx, blob, sizeof(blob));
	uint64_t then, patience = now_ns() + PAIR_LATE_NS;

	freeze(0);
	while (!connected) {
		CHECK(!is_late(patience));
		sqe = next_sqe(0);
		urccl_prep_connect(sqe, blob, (uint32_t)len);
		sqe->user_data = DIALLING;
		dialling = 1;
		CHECK_GE(urccl_submit(p.a.ring), 1);
		TURN_UNTIL(!dialling);
		then = ticks; /* a dead network is back in its own time */
		TURN_UNTIL(connected || !ticking || ticks != then);
	}
	import();
}

static void revoke_it(void)
{
	struct urccl_sqe *sqe = side_sqe(&p.b);

	freeze(0);
	exact = 0;
	causes.revoked = n;
	urccl_prep_revoke(sqe, t.region);
	sqe->user_data = REVOKING;
	revoking = 1;
	all_revoked++;
	CHECK_EQ(urccl_submit(p.b.ring), 1);
	TURN_UNTIL(!revoking);
	owe_nothing();
	advertise();
	if (connected)
		urccl_unimport(p.a.ctx, t.remote);
	import();
}

/* Of what it did not look at it never hears. */
static void close_b(void)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		entries[i].missed = 1;
	causes.closed = n;
	side_close(&p.b);
}

static void open_b(const char *own)
{
	const uint32_t all = URCCL_RIGHT_READ | URCCL_RIGHT_WRITE | URCCL_RIGHT_ATOMIC;

	p.params.sim = own;
	p.params.listen = address;
	side_open(&p, &p.b);
	p.params.sim = p.params.listen = NULL;
	urccl_prep_accept(side_sqe(&p.b));
	urccl_prep_watch(side_sqe(&p.b), (struct urccl_peer){0});
	CHECK_EQ(urccl_submit(p.b.ring), 2);
	t.region = side_register(&p.b, t.bytes, t.len, all);
	advertise();
}

/* Another one is at its address: what is of the old one moves nothing. */
static void restart(const char *own)
{
	struct urccl_remote remote = t.remote;
	struct urccl_peer peer = p.a.peer;
	uint32_t imported = connected;

	exact = 0;
	freeze(0);
	all_restarted++;
	close_b();
	open_b(own);
	TURN_UNTIL(!connected || is_gone());
	connected = 0;
	owe_nothing();
	connect_again();
	if (!imported || !connected)
		return;
	try_stale(peer, remote);
	CHECK_GE(urccl_submit(p.a.ring), 3);
	TURN_UNTIL(!stale);
}

static void something(const char *own)
{
	switch (below(400)) {
	case 0:
		freeze(!frozen);
		break;
	case 1:
		if (revokes)
			revoke_it();
		break;
	case 2:
		if (restarts)
			restart(own);
		break;
	default:
		if (frozen && !below(40))
			freeze(0);
		break;
	}
}

/* ---- a round ---- */

static void maybe(char *text, size_t room, uint32_t one_in, const char *fault, uint64_t most)
{
	size_t len = strlen(text);

	if (!below(one_in))
		snprintf(text + len, room - len, fault, (unsigned long long)(1 + below(most)));
}

static void draw_faults(char *text, size_t room)
{
	snprintf(text, room, "clock=simulated,retries=%llu,delay=1us..%lluus",
		 (unsigned long long)(2 + below(10)), (unsigned long long)(1 + below(300)));
	maybe(text, room, 2, ",drop=0.%02llu%%", 99);
	maybe(text, room, 2, ",duplicate=%llu%%", 40);
	maybe(text, room, 2, ",early=%llu%%", 100);
	maybe(text, room, 3, ",error=0.%03llu%%", 999);
	maybe(text, room, 3, ",partial=0.%03llu%%", 999);
	maybe(text, room, 3, ",depth=%llu", 40);
	maybe(text, room, 4, ",rate=%llum", 300);
	maybe(text, room, 4, ",flip=%llu%%", 4);
	maybe(text, room, 4, ",freeze=1ms..20ms/%llums", 100);
	maybe(text, room, 4, ",flap=100us..3ms/%llums", 100);
	maybe(text, room, 5, ",restart=2ms..%llu0ms", 9);
	if (below(3))
		return;
	maybe(text, room, 1, ",rails=%llu", 3);
	maybe(text, room, 2, ",kill@1=1ms..20ms/%llums", 30);
	maybe(text, room, 4, ",kill=2ms..50ms/%llums", 10);
	maybe(text, room, 3, ",rate@1=%llum", 300);
}

/* The peer's alone. */
static void draw_own(char *text, size_t room)
{
	snprintf(text, room, "resend=%lluus", (unsigned long long)(20 + below(500)));
	maybe(text, room, 3, ",drop=%llu%%", 4);
	maybe(text, room, 3, ",rate=%llum", 50);
	maybe(text, room, 4, ",flap=%llums/10ms..50ms", 10);
}

static void places_init(void)
{
	uint64_t off = 0;
	uint32_t i;

	memset(places, 0, sizeof(places));
	for (i = 0; i < PLACES; i++) {
		places[i].off = off;
		places[i].size = i < SMALL ? 1u << 10 : 128u << 10;
		off += places[i].size;
	}
	t.len = off + 8ull * WORDS;
	if (!bytes) {
		bytes = malloc(t.len);
		t.bytes = malloc(t.len);
	}
	CHECK(bytes && t.bytes);
	memset(bytes, 0, t.len);
	memset(t.bytes, 0, t.len);
}

static uint32_t has(const char *words, const char *const *which)
{
	while (*which && !strstr(words, *which))
		which++;
	return *which != NULL;
}

/* What each word leads to: urccl_sim(7). */
static struct causes causes_of(const char *faults, const char *own)
{
	static const char *const errors[] = {"error=", "partial=", NULL};
	static const char *const flips[] = {"flip=", NULL};
	static const char *const breaks[] = {"drop=", "flap=", "restart=", "kill", NULL};
	static const char *const slow[] = {"drop=", "flap=",   "restart=", "kill",
					   "rate",  "freeze=", NULL};

	return (struct causes){.errors = has(faults, errors),
			       .flips = has(faults, flips),
			       .breaks = has(faults, breaks) || has(own, breaks),
			       .slow = has(faults, slow) || has(own, slow)};
}

static void begin(char *faults, const char *own)
{
	places_init();
	memset(done, 0, sizeof(done));
	memset(unknown, 0, sizeof(unknown));
	n = retired = connected = frozen = doubtful = ticking = 0;
	submitted = ended = ticks = 0;
	causes = causes_of(faults, own);
	dies = !!strstr(faults, ",kill=");
	p.faults = faults;
	p.seed = below(UINT32_MAX);
	p.params.sim_network = NULL;
	pair_sim(&p);
	side_open(&p, &p.a);
	open_b(own);
	watch();
	local = side_register(&p.a, bytes, t.len, 0);
	connect_again();
	tick();
	ticking = 1;
	told = 14695981039346656037ull;
	exact = 1;
}

/* While its sender has the peer, that hears of a failure too, unless the entry did not name it.
 * Where all rails die they come back in real time, and simulated time is over before that. */
static int is_to_come(const struct entry *e, int lost)
{
	if (!e->promised || e->heard || e->missed)
		return 0;
	return e->good || (!lost && e->peer == p.a.peer.id && e->res != -ESTALE);
}

static int all_heard(void)
{
	int lost = dies || is_lost();
	uint32_t i;

	for (i = 0; i < n; i++)
		if (is_to_come(&entries[i], lost))
			return 0;
	return 1;
}

static void check_notes(void)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct entry *e = &entries[i];

		if (e->heard && e->good)
			CHECK_GE(e->heard_res, 0);
		if (e->heard && !e->good && !e->unknown)
			CHECK(e->heard_res < 0);
	}
}

static void check_memory(void)
{
	const uint64_t *words = (const uint64_t *)(const void *)(t.bytes + t.len - 8ull * WORDS);
	static const uint8_t zero[MARGIN];
	uint32_t i;

	for (i = 0; i < PLACES; i++) {
		uint64_t end = places[i].off + places[i].size - MARGIN;

		look_untouched(&places[i]);
		CHECK(!memcmp(bytes + end, zero, MARGIN) && !memcmp(t.bytes + end, zero, MARGIN));
	}
	for (i = 0; i < WORDS; i++)
		CHECK(words[i] >= done[i] && words[i] <= done[i] + unknown[i]);
}

static void check_stats(void)
{
	struct urccl_stats s = {.size = sizeof(s)};

	CHECK_EQ(urccl_get_stats(p.a.ctx, &s), 0);
	CHECK_EQ(s.submitted, submitted);
	CHECK_EQ(s.completed + s.failed + s.cancelled + s.timed_out, ended);
	CHECK_EQ(urccl_sq_space_left(p.a.ring), p.ring_params.entries - 2); /* WATCH and TIMEOUT */
}

static void end_entries(void)
{
	while (nopen || others) {
		drain();
		CHECK_GE(urccl_submit(p.a.ring), 2);
		TURN_UNTIL(!draining);
	}
}

static void end(void)
{
	uint32_t i;

	freeze(0);
	if (!below(4)) { /* the peer goes while all that is under way */
		exact = 0;
		close_b();
		end_entries();
	} else {
		end_entries();
		TURN_UNTIL(all_heard());
		for (i = 0; i < 200; i++)
			turn();
	}
	check_notes();
	check_memory();
	check_stats();
	side_close(&p.a);
	if (p.b.ctx)
		side_close(&p.b);
	CHECK_EQ(urccl_sim_close(p.sim), 0);
	p.sim = NULL;
}

static void run(char *faults, const char *own)
{
	uint64_t so_far;
	uint32_t k;

	begin(faults, own);
	while (n < ROUND && retired < PLACES / 2) {
		if (!connected || (doubtful && is_gone())) {
			exact = connected = 0;
			connect_again();
		}
		for (k = (uint32_t)below(10); k && n < ROUND; k--) {
			if (urccl_sq_space_left(p.a.ring) < 8 || !connected)
				break;
			if (calm || below(30))
				start();
			else
				cancel();
		}
		CHECK_GE(urccl_submit(p.a.ring), 0);
		for (k = (uint32_t)below(8); k; k--)
			turn();
		something(own);
	}
	so_far = told;
	end();
	told = so_far;
}

/* 1: it was the same once more. */
static int run_again(char *faults, const char *own, uint64_t from)
{
	uint64_t first = told;

	tried++;
	state = from;
	run(faults, own);
	return exact && told == first;
}

/* ---- the command line ---- */

/* A seed of its own unless one is given; what pair_options() does not know is taken out. */
static uint64_t options(int *argc, char **argv)
{
	uint64_t many = PAIR_SLOW ? 3000 : 30000;
	int i, kept = 1;

	seed = 0;
	CHECK_EQ(getrandom(&seed, 4, 0), 4);
	for (i = 1; i < *argc; i++) {
		if (!strncmp(argv[i], "--entries=", 10))
			many = strtoull(argv[i] + 10, NULL, 0);
		else if (!strncmp(argv[i], "--seed=", 7))
			seed = strtoull(argv[i] + 7, NULL, 0);
		else if (!strncmp(argv[i], "--from=", 7))
			first_round = strtoull(argv[i] + 7, NULL, 0);
		else if (!strcmp(argv[i], "--twice"))
			twice = 1;
		else if (!strcmp(argv[i], "--help"))
			exit(fputs(help, stdout) < 0);
		else
			argv[kept++] = argv[i];
	}
	*argc = kept;
	printf("seed %llu\n", (unsigned long long)seed);
	fflush(stdout);
	return many;
}

static void rest(void)
{
	usleep(1000);
}

int main(int argc, char **argv)
{
	uint64_t many = options(&argc, argv), entered = 0, rounds = first_round - 1, from;
	struct held most = {0};
	char faults[256], own[128];
	uint32_t same = 0;

	pair_options(&p, argc, argv);
	p.params.flags |= URCCL_OPEN_INLINE;
	p.params.deadline_ms = DEADLINE_MS;
	p.params.dead_after_ms =
		3600000; /* nobody is asked, over a real socket, whether it lives */
	place_v4(address, free_port());
	while (entered < many) {
		state = (seed + ++rounds) * 0x9e3779b97f4a7c15ull | 1;
		revokes = !below(6);
		restarts = !below(4) && !twice;
		calm = !below(3);
		draw_faults(faults, sizeof(faults));
		draw_own(own, sizeof(own));
		printf("round %llu, %llu entries before: %s; the peer: %s\n",
		       (unsigned long long)rounds, (unsigned long long)entered, faults, own);
		from = state;
		run(faults, own);
		entered += n;
		same += twice && exact && run_again(faults, own, from);
		if (rounds == first_round + WARM_ROUNDS)
			most = held_settled(rest);
		else if (rounds > first_round + WARM_ROUNDS)
			check_held("the storm", &most, rest);
	}
	printf("%llu entries: %llu succeeded, %llu in silence, %llu failed; %llu notifications, %llu "
	       "acknowledged writes proved, %llu with flipped bits, %llu peers lost, %llu restarted, "
	       "%llu revocations\n",
	       (unsigned long long)entered, (unsigned long long)all_good,
	       (unsigned long long)all_silent, (unsigned long long)all_bad,
	       (unsigned long long)all_notes, (unsigned long long)all_proved,
	       (unsigned long long)all_torn, (unsigned long long)all_lost,
	       (unsigned long long)all_restarted, (unsigned long long)all_revoked);
	if (twice)
		printf("%u of %u rounds were the same once more\n", same, tried);
	CHECK(!twice || tried - same <= 1 + tried / 8); /* a machine may be away for a second */
	CHECK(all_good > many / 20 && all_bad && all_notes);
	if (many >= 100000)
		CHECK(all_silent && all_proved && (all_restarted || twice));
	return 0;
}
