package experiment

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"runtime"
	"strconv"

	"github.com/graphrun/graphrun/exec"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/report"
)

// identity identifies the plan of a program, and the layout problem that the plan solves, among programs of one graph.
// The problem consists of the graph, its sizes, its pins (layouts that the user demands), the passes and options, and
// the prices of the profile.
type identity struct {
	program       *program.Program
	planDigest    string // digest of the steps; empty if the time of a run depends on more than the plan
	problemDigest string // digest of the problem without the graph; empty if planned in segments or with KeepGoing
	cachedDigest  string // digest of the graph; empty until graphDigest computes it
}

// identityOf computes the digests of a program, except the digest of the graph. A binding has the plan and the compiled
// program for one set of sizes; Compile makes the first binding.
func identityOf(compiled *program.Program, plan *report.Plan) identity {
	id, options, binding := identity{program: compiled}, compiled.Options(), compiled.FirstBinding()
	if binding.Segmented() || options.KeepGoing {
		return id
	}
	digest := sha256.New()
	fmt.Fprintf(digest, "%v %q %q %t %t %d %s", binding.Graph.BoundSizes(), pinsOf(binding.Graph), passNames(plan),
		options.NoFusion, options.Exact, options.MemoryLimit, plan.Profile.Digest)
	id.problemDigest = hex.EncodeToString(digest.Sum(nil))
	if options.Tracer != nil { // a tracer may slow down the program, so the program is measured separately
		return id
	}
	digest.Reset()
	fmt.Fprintf(digest, "%d %+v %+v", cmp.Or(options.Threads, runtime.GOMAXPROCS(0)), plan.Memory, plan.PackedInRuns)
	hashSteps(digest, binding)
	id.planDigest = hex.EncodeToString(digest.Sum(nil))
	return id
}

// passNames returns the names of a plan's passes, in order.
func passNames(plan *report.Plan) []string {
	names := make([]string, len(plan.Passes))
	for i, pass := range plan.Passes {
		names[i] = pass.Pass
	}
	return names
}

// hashSteps hashes the constants, the steps in order, and the outputs of a program.
func hashSteps(digest hash.Hash, binding *program.Binding) {
	for _, v := range binding.Plan.Graph.Constants {
		fmt.Fprintf(digest, "\nconstant %s", quotedName(v))
		hashLayout(digest, v)
	}
	for _, step := range binding.Program.Steps() {
		hashStep(digest, step)
	}
	for _, output := range binding.Plan.Graph.Outputs {
		fmt.Fprintf(digest, "\noutput %q %s", output.Name, quotedName(output.Value))
	}
}

// hashStep hashes a step: computed nodes, implementation, loop, operands and results.
func hashStep(digest hash.Hash, step exec.Step) {
	node := step.Node
	fmt.Fprintf(digest, "\nstep %q %q %d %s", step.Name, step.Ops, step.Buffer, callText(node, quotedName))
	if node.Impl != nil {
		fmt.Fprintf(digest, " by %q", node.Impl.Name)
	}
	if step.Loop == nil {
		fmt.Fprintf(digest, " order %v", node.Walk.LoopOrder) // layouts of results are hashed below
	} else { // orders that differ only in coalesced dimensions or dimensions of size 1 run alike
		fmt.Fprintf(digest, " loop %v", step.Loop.WalkShape())
		for i := range step.Loop.Len() {
			fmt.Fprintf(digest, " %v", step.Loop.WalkStrides(i))
		}
	}
	for _, arg := range node.In {
		fmt.Fprintf(digest, "\n in %v %s", arg.Kind, quotedName(arg.Value))
		if arg.Kind == graph.NumberArg {
			fmt.Fprintf(digest, " %v:%v", arg.Number.DType(), arg.Number)
		}
	}
	for _, v := range node.Out {
		fmt.Fprintf(digest, "\n out %s of %s in %s", quotedName(v), quotedName(v.Alias), quotedName(v.ContainedIn))
		hashLayout(digest, v)
	}
}

// quotedName returns the name of a value in quotes, or "-" for nil.
func quotedName(v *graph.Value) string {
	if v == nil {
		return "-"
	}
	return strconv.Quote(v.Name)
}

// hashLayout hashes the dtype, the layout and the packed form of a value.
func hashLayout(digest hash.Hash, v *graph.Value) {
	fmt.Fprintf(digest, " %v %v %v %d", v.Meta.DType, v.Meta.Shape, v.Meta.Strides, v.Meta.Offset)
	if v.Packed != nil {
		fmt.Fprintf(digest, " packed %q", v.Packed.Format)
	}
}

// samePlan reports whether two programs of one graph run equal steps.
func (id *identity) samePlan(ctx context.Context, other *identity) bool {
	return id.planDigest != "" && id.planDigest == other.planDigest && id.sameGraph(ctx, other)
}

// sameProblem reports whether two programs choose layouts for one graph with equal sizes, pins, options and prices. A
// bound on the cost of any plan then holds for both programs.
func (id *identity) sameProblem(ctx context.Context, other *identity) bool {
	return id.problemDigest != "" && id.problemDigest == other.problemDigest && id.sameGraph(ctx, other)
}

// sameGraph reports whether two programs were compiled from one graph or from equal graphs.
func (id *identity) sameGraph(ctx context.Context, other *identity) bool {
	if id.program.SameOrigin(other.program) {
		return true
	}
	digest, otherDigest := id.graphDigest(ctx), other.graphDigest(ctx)
	return digest != "" && digest == otherDigest
}

// graphDigest returns a digest of the graph with the data of its constants, or "" if there is none.
func (id *identity) graphDigest(ctx context.Context) string {
	if id.cachedDigest == "" {
		id.cachedDigest, _ = digestUntil(ctx, id.program.FirstBinding().WithAllConstants())
	}
	return id.cachedDigest
}

// digestUntil is digestOf, but returns an error instead of a panic when the context ends.
func digestUntil(ctx context.Context, g *graph.Graph) (digest string, err error) {
	defer interrupt.Catch(&err)
	return digestOf(ctx, g)
}
