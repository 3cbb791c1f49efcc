// posix_spawn's two argument objects with an owner, and the settings that every process of ours is
// started with: whatever our host made of signals and descriptors is none of a child's business.
#pragma once

#include <signal.h>
#include <spawn.h>

namespace overlord::workers {

struct SpawnSettings {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnSettings() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // Default dispositions and an empty mask. `own_group`: a terminal's Ctrl-C is not for the child.
  int default_signals(bool own_group) {
    sigset_t all;
    sigset_t none;
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    if (own_group) {
      posix_spawnattr_setpgroup(&attributes, 0);
      flags |= POSIX_SPAWN_SETPGROUP;
    }
    return posix_spawnattr_setflags(&attributes, flags);
  }

  // What the host left inheritable (devices, listening sockets) ends at the child's exec.
  int close_from(int first) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
    return posix_spawn_file_actions_addclosefrom_np(&actions, first);
#else
    static_cast<void>(first);
    return 0;
#endif
  }
};

}  // namespace overlord::workers
