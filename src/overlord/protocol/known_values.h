// Which values of each enumeration may arrive from outside. Switches without default: the compiler
// names the place that a new enumerator is missing from.
#pragma once

#include "overlord/base/status.h"
#include "overlord/model/element.h"
#include "overlord/model/job_spec.h"
#include "overlord/model/mesh.h"
#include "overlord/model/plan_report.h"
#include "overlord/protocol/messages.h"

namespace overlord::protocol {

constexpr bool is_known(Code value) {
  using enum Code;
  switch (value) {
    case kOk:
    case kInvalidArgument:
    case kNotFound:
    case kOutOfRange:
    case kBadData:
    case kSourceChanged:
    case kBudgetExceeded:
    case kStateMismatch:
    case kVersionMismatch:
    case kResource:
    case kUnavailable:
    case kDeadline:
    case kCancelled:
    case kInternal:
    case kUserFunction:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Element value) {
  using enum model::Element;
  switch (value) {
    case kU8:
    case kI8:
    case kU16:
    case kI16:
    case kU32:
    case kI32:
    case kU64:
    case kI64:
    case kF32:
    case kF64:
      return true;
  }
  return false;
}

constexpr bool is_known(model::MediaKind value) {
  using enum model::MediaKind;
  switch (value) {
    case kImage:
    case kAudio:
    case kVideo:
      return true;
  }
  return false;
}

constexpr bool is_known(model::CostKind value) {
  using enum model::CostKind;
  switch (value) {
    case kTokens:
    case kQuadratic:
    case kTransformer:
    case kVit:
    case kSum:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Packing value) {
  using enum model::Packing;
  switch (value) {
    case kBestFit:
    case kConcat:
    case kPad:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Leftover value) {
  using enum model::Leftover;
  switch (value) {
    case kDrain:
    case kDropCounted:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Slicing value) {
  using enum model::Slicing;
  switch (value) {
    case kTrainer:
    case kSequenceZigzag:
    case kDocumentZigzag:
    case kContiguous:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Share value) {
  using enum model::Share;
  switch (value) {
    case kNone:
    case kBoundaries:
    case kSlice:
    case kFull:
      return true;
  }
  return false;
}

constexpr bool is_known(model::TokenType value) {
  using enum model::TokenType;
  switch (value) {
    case kUint16:
    case kInt32:
    case kInt64:
      return true;
  }
  return false;
}

constexpr bool is_known(model::WeightType value) {
  using enum model::WeightType;
  switch (value) {
    case kUint8:
    case kFloat32:
      return true;
  }
  return false;
}

constexpr bool is_known(model::MixUnit value) {
  using enum model::MixUnit;
  switch (value) {
    case kTokens:
    case kSamples:
    case kBytes:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Quota value) {
  using enum model::Quota;
  switch (value) {
    case kExact:
    case kMultinomial:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Ramp value) {
  using enum model::Ramp;
  switch (value) {
    case kNone:
    case kLinear:
    case kCosine:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Grain value) {
  using enum model::Grain;
  switch (value) {
    case kStep:
    case kSubstep:
    case kEpoch:
      return true;
  }
  return false;
}

constexpr bool is_known(model::ControllerKind value) {
  using enum model::ControllerKind;
  switch (value) {
    case kNone:
    case kOdm:
    case kAdo:
    case kRule:
      return true;
  }
  return false;
}

constexpr bool is_known(model::BoundBy value) {
  using enum model::BoundBy;
  switch (value) {
    case kMean:
    case kLargest:
    case kPigeonhole:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Format value) {
  using enum model::Format;
  switch (value) {
    case kParquet:
    case kJsonl:
    case kMegatron:
    case kWebDataset:
    case kArrow:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Shuffle value) {
  using enum model::Shuffle;
  switch (value) {
    case kNone:
    case kWindow:
    case kFull:
      return true;
  }
  return false;
}

constexpr bool is_known(model::EndPolicy value) {
  using enum model::EndPolicy;
  switch (value) {
    case kRepeat:
    case kDrop:
    case kStop:
      return true;
  }
  return false;
}

constexpr bool is_known(model::DecodeAt value) {
  using enum model::DecodeAt;
  switch (value) {
    case kAuto:
    case kLoader:
    case kConstructor:
      return true;
  }
  return false;
}

constexpr bool is_known(model::OverLength value) {
  using enum model::OverLength;
  switch (value) {
    case kSplit:
    case kTruncate:
    case kDrop:
      return true;
  }
  return false;
}

constexpr bool is_known(model::EmptyRows value) {
  using enum model::EmptyRows;
  switch (value) {
    case kBad:
    case kSkip:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Lane value) {
  using enum model::Lane;
  switch (value) {
    case kProcess:
    case kThread:
      return true;
  }
  return false;
}

constexpr bool is_known(model::RowText value) {
  using enum model::RowText;
  switch (value) {
    case kColumn:
    case kRecord:
    case kInterleaved:
      return true;
  }
  return false;
}

constexpr bool is_known(model::TokenizerKind value) {
  using enum model::TokenizerKind;
  switch (value) {
    case kNone:
    case kBytes:
    case kHuggingFace:
      return true;
  }
  return false;
}

constexpr bool is_known(model::BalanceMethod value) {
  using enum model::BalanceMethod;
  switch (value) {
    case kArrival:
    case kGreedy:
    case kLpt:
    case kLptSearch:
    case kKarmarkarKarp:
    case kZigzag:
    case kVector:
      return true;
  }
  return false;
}

constexpr bool is_known(model::BalanceLevel value) {
  using enum model::BalanceLevel;
  switch (value) {
    case kBucket:
    case kBin:
    case kInterleaved:
      return true;
  }
  return false;
}

constexpr bool is_known(model::Atoms value) {
  using enum model::Atoms;
  switch (value) {
    case kSequences:
    case kSamples:
    case kSlices:
      return true;
  }
  return false;
}

constexpr bool is_known(model::HdpMethod value) {
  using enum model::HdpMethod;
  switch (value) {
    case kStatic:
    case kPowerOfTwo:
    case kNaive:
    case kBuckets:
    case kSearch:
      return true;
  }
  return false;
}

constexpr bool is_known(model::HdpBalance value) {
  using enum model::HdpBalance;
  switch (value) {
    case kDp:
    case kPp:
      return true;
  }
  return false;
}

constexpr bool is_known(model::OrderMethod value) {
  using enum model::OrderMethod;
  switch (value) {
    case kKeep:
    case kAscending:
    case kDescending:
    case kSmallEnds:
    case kSearch:
      return true;
  }
  return false;
}

constexpr bool is_known(RoleKind value) {
  using enum RoleKind;
  switch (value) {
    case kPlanner:
    case kLoader:
    case kConstructor:
    case kClient:
      return true;
  }
  return false;
}

constexpr bool is_known(Verdict value) {
  using enum Verdict;
  switch (value) {
    case kAccepted:
    case kDuplicate:
    case kLate:
    case kEarly:
    case kUnwanted:
      return true;
  }
  return false;
}

}  // namespace overlord::protocol
