// Refusal: the door of a node that has nothing to serve. Whoever calls is told why, so that no rank
// waits for what will not come: until all ranks have been told, another try begins, or nobody else
// comes for a while.
#pragma once

#include "overlord/node/keeper/keeper.h"
#include "overlord/node/keeper/life_line.h"
#include "overlord/roles/keeper/failure_book.h"

namespace overlord::node {

// `unknown`: ranks may come that the failure's book does not expect.
void run_refusal(const KeeperArguments& arguments, keeper::FailureBook failure, bool unknown,
                 LifeLine& line);

}  // namespace overlord::node
