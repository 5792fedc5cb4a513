// A server around one model: 8 threads, each with a session of its own, take requests from a bounded queue and answer.
// Requests are paths of images, a line each, on standard input; what a network would bring comes the same way.
//
//   server MODEL.so < paths > answers
#include <condition_variable>
#include <deque>
#include <iostream>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <vertebra.h>

namespace {

struct Release {
  void operator()(vtb_model *m) const { vtb_model_release(m); }
  void operator()(vtb_session *s) const { vtb_session_close(s); }
};
using Model = std::unique_ptr<vtb_model, Release>;
using Session = std::unique_ptr<vtb_session, Release>;

void check(vtb_status status, const vtb_error &error) {
  if (status != VTB_OK) throw std::runtime_error(error.text);
}

Model open_model(const char *path) {
  vtb_error error{};
  vtb_model *m = nullptr;
  check(vtb_model_open(path, nullptr, &m, &error), error);
  return Model(m);
}

// One thread a session: the server's threads are what runs in parallel.
Session open_session(vtb_model *model) {
  vtb_error error{};
  vtb_session *s = nullptr;
  vtb_session_options options{};
  options.size = sizeof options;
  options.threads = 1;
  options.batch = 1;
  check(vtb_session_open(model, &options, &s, &error), error);
  return Session(s);
}

// Who puts waits while it is full, who takes while it is empty.
class Queue {
 public:
  explicit Queue(std::size_t most) : most_(most) {}
  void put(std::string item) {
    std::unique_lock<std::mutex> lock(mutex_);
    has_room_.wait(lock, [this] { return items_.size() < most_; });
    items_.push_back(std::move(item));
    has_items_.notify_one();
  }
  // False once it is closed and empty.
  bool take(std::string &item) {
    std::unique_lock<std::mutex> lock(mutex_);
    has_items_.wait(lock, [this] { return closed_ || !items_.empty(); });
    if (items_.empty()) return false;
    item = std::move(items_.front());
    items_.pop_front();
    has_room_.notify_one();
    return true;
  }
  void close() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    has_items_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable has_room_, has_items_;
  std::deque<std::string> items_;
  std::size_t most_;
  bool closed_ = false;
};

// A request that fails is answered with the reason; the server goes on.
std::string answer(vtb_session *session, const std::string &path) {
  vtb_error error{};
  vtb_array scores{};
  scores.size = sizeof scores;
  vtb_status status = vtb_session_load_image(session, nullptr, 0, path.c_str(), &error);
  if (status == VTB_OK) status = vtb_session_run(session, 1, &error);
  if (status == VTB_OK) status = vtb_session_array(session, VTB_ARRAY_OUTPUT, nullptr, &scores, &error);
  if (status != VTB_OK) return path + ": error: " + error.text;
  const float *at = static_cast<const float *>(scores.data);
  int64_t best = 0;
  for (int64_t i = 1; i < scores.dim[1]; i++)
    if (at[i] > at[best]) best = i;
  return path + ": class " + std::to_string(best);
}

}  // namespace

int main(int argc, char **argv) try {
  constexpr int kThreads = 8;
  if (argc != 2) throw std::runtime_error("usage: server MODEL.so < paths > answers");
  Model model = open_model(argv[1]);
  Queue queue(4 * kThreads);
  std::mutex output;
  std::vector<Session> sessions;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; i++) sessions.push_back(open_session(model.get()));
  for (Session &session : sessions)
    threads.emplace_back([&queue, &output, s = session.get()] {
      for (std::string path; queue.take(path);) {
        std::string text = answer(s, path);
        std::lock_guard<std::mutex> lock(output);
        std::cout << text << '\n';
      }
    });
  for (std::string line; std::getline(std::cin, line);) queue.put(line);
  queue.close();
  for (std::thread &t : threads) t.join();
  return 0;
} catch (const std::exception &e) {
  std::cerr << "server: " << e.what() << '\n';
  return 1;
}
