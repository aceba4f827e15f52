// The work of tests/sim/peers.h on SimGrid: prints the simulated time and that of its run phase.
//   peer_simgrid ring|server WORKERS STEPS SAMPLES [SimGrid's options]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace s4u = simgrid::s4u;

namespace
{

constexpr double bytes = 100e6, port_bytes_per_s = 12.5e9, port_s = 2e-6, compute_s = 0.1;
constexpr double flop_per_s = 1e9;

struct Work {
    int workers, steps;
    std::vector<double> factors; // of the computing time, [workers x steps]
    std::vector<s4u::Host *> hosts;

    void compute(int worker, int step) const
    {
        const double factor = factors[static_cast<size_t>(worker) * steps + step];
        s4u::this_actor::execute(compute_s * factor * flop_per_s);
    }
};

// A rank sends a piece to the next one and waits for its own and for the one from the rank before.
void reduce_in_a_ring(const Work *work, int rank)
{
    const int n = work->workers;
    s4u::Mailbox *next = s4u::Mailbox::by_name(std::to_string((rank + 1) % n));
    s4u::Mailbox *own = s4u::Mailbox::by_name(std::to_string(rank));
    int piece = rank;
    for (int step = 0; step < work->steps; step++) {
        work->compute(rank, step);
        for (int round = 0; round < 2 * (n - 1); round++) {
            s4u::CommPtr sent = next->put_async(&piece, static_cast<uint64_t>(bytes / n));
            own->get<int>();
            sent->wait();
        }
    }
}

void push_and_pull(const Work *work, int worker)
{
    s4u::Host *server = work->hosts[work->workers], *host = work->hosts[worker];
    for (int step = 0; step < work->steps; step++) {
        work->compute(worker, step);
        s4u::Comm::sendto(host, server, static_cast<uint64_t>(bytes));
        s4u::Comm::sendto(server, host, static_cast<uint64_t>(bytes));
    }
}

void make_switch(Work &work)
{
    s4u::NetZone *zone = s4u::create_star_zone("switch");
    for (int i = 0; i <= work.workers; i++) { // the last one is the server's
        const std::string name = std::to_string(i);
        s4u::Host *host = zone->create_host("node" + name, flop_per_s);
        const auto *port = zone->create_split_duplex_link("port" + name, port_bytes_per_s)
                               ->set_latency(port_s)
                               ->seal();
        zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                        {{port, s4u::LinkInRoute::Direction::UP}}, true);
        work.hosts.push_back(host);
    }
    zone->seal();
}

bool read_samples(Work &work, const char *path)
{
    work.factors.resize(static_cast<size_t>(work.workers) * work.steps);
    std::unique_ptr<FILE, int (*)(FILE *)> in(std::fopen(path, "rb"), std::fclose);
    return in && std::fread(work.factors.data(), sizeof(double), work.factors.size(), in.get()) ==
                     work.factors.size();
}

} // namespace

int main(int argc, char **argv)
{
    s4u::Engine engine(&argc, argv);
    Work work;
    if (argc != 5) return 2;
    work.workers = std::atoi(argv[2]);
    work.steps = std::atoi(argv[3]);
    if (work.workers < 2 || work.steps < 1 || !read_samples(work, argv[4])) return 2;
    const bool ring = std::strcmp(argv[1], "ring") == 0;
    make_switch(work);
    for (int i = 0; i < work.workers; i++)
        s4u::Actor::create("worker", work.hosts[i], ring ? reduce_in_a_ring : push_and_pull, &work,
                           i);
    const auto start = std::chrono::steady_clock::now();
    engine.run();
    const std::chrono::duration<double> ran = std::chrono::steady_clock::now() - start;
    std::printf("%.9f %.6f\n", s4u::Engine::get_clock(), ran.count());
    return 0;
}
