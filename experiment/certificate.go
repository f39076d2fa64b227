package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/devices"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/graphdigest"
	"github.com/graphrun/graphrun/internal/interrupt"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
	"github.com/graphrun/graphrun/passes/layout/wcsp/verify"
	"github.com/graphrun/graphrun/pricing"
)

// CertificateVersion is the version of certificate files.
const CertificateVersion = 2

// Certificate proves the cost of a plan, and a lower bound on the cost of all plans. A reader need not trust the
// author: [Verify] rebuilds the problem from the graph and checks the proof.
type Certificate struct {
	Version       int              `json:"version" const:"2" doc:"The version of the file: 2."`
	Graph         CertifiedGraph   `json:"graph" doc:"The graph that was planned."`
	Options       CertifiedOptions `json:"options" doc:"The options that the problem depends on."`
	OptionsDigest string           `json:"options_digest" doc:"The sha256 of the options' canonical JSON (RFC 8785), in hexadecimal digits."`
	Profile       *pricing.Profile `json:"profile" doc:"The prices of the machine."`
	ProfileDigest string           `json:"profile_digest" doc:"The sha256 of the profile's canonical JSON (RFC 8785), in hexadecimal digits, as plan prints it."`
	Problem       *wcsp.Problem    `json:"problem" doc:"The problem of layouts: the choices and their costs."`
	Solution      *wcsp.Solution   `json:"solution" doc:"The chosen plan, a lower bound on the cost of all plans, and its proof."`
	// Regret proves that the plan costs at most Cost-Bound more than any other plan, at any prices within the intervals of
	// the profile's prices: see [layout.RegretBound]. Its labels are those of Solution.
	Regret *wcsp.Solution   `json:"regret,omitzero" doc:"The cost of the plan at the upper ends of the intervals of its measured prices, a lower bound on the cost of every plan with the other prices at the lower ends, and its proof; left out without measured prices."`
	Copies *CertifiedCopies `json:"copies,omitzero" doc:"The proof about copies and memory; left out for strategies other than optimal."`
}

// CertifiedCopies proves a lower bound on the weighted cost of all plans: a weighted sum of time, number of copies, and
// bytes of copies. Together with the bound on the cost, this bound implies two further lower bounds. The first bounds
// the number of copies of every plan within the slack. The second bounds the bytes of copies of every plan of least
// cost with this number of copies.
type CertifiedCopies struct {
	Slack       float64        `json:"slack" doc:"The share of the least cost by which the plan may cost more."`
	PlanWeights layout.Weights `json:"plan_weights" doc:"The weights by which the cheapest copies are chosen for the labels of the solution."`
	Cost        int64          `json:"cost" doc:"The cost of the plan, in picoseconds; it equals the cost of the solution, unless a slack permits more expensive copies."`
	Weights     layout.Weights `json:"weights" doc:"The weights of the weighted problem, which has the variables and factors of the problem."`
	Bound       int64          `json:"bound" doc:"A lower bound on the weighted cost of every plan."`
	Proof       *wcsp.Proof    `json:"proof" doc:"The proof of the bound."`
}

// CertifiedGraph identifies the graph of a certificate.
type CertifiedGraph struct {
	Name   string `json:"name" doc:"The name of the graph; it may be empty."`
	Digest string `json:"digest" doc:"The sha256 of structure, attributes, layouts and the data of constants."`
	// The caller of [Certify] sets Sizes, because a graph that was read with sizes may have numbers in their place.
	Sizes map[string]int `json:"sizes,omitempty" doc:"The sizes with which the file of the graph was read (--dim); left out if there are none."`
}

// CertifiedOptions are the options that the problem depends on.
type CertifiedOptions struct {
	Strategy    string         `json:"strategy" doc:"The strategy that made the plan."`
	Sizes       map[string]int `json:"sizes" doc:"The sizes of all symbols."`
	Pins        []CertifiedPin `json:"pins" doc:"The pins of the graph, including the pins of its file."`
	NoFusion    bool           `json:"no_fusion" doc:"Whether each node is a step of its own."`
	Exact       bool           `json:"exact" doc:"Whether implementations that compute by another formula than the op's definition were excluded."`
	Device      string         `json:"device,omitzero" doc:"The device that may compute nodes, whose prices the profile has; left out for the host."`
	MemoryLimit int            `json:"memory_limit" doc:"The limit on the bytes of a run; 0: the available memory; negative: none."`
}

// CertifiedPin is a pin in the notation of the flag --pin.
type CertifiedPin struct {
	Name string `json:"name" doc:"The value, the node or the output."`
	Pin  string `json:"pin" doc:"A memory format, an order or an implementation."`
}

// Certify returns a certificate of a program's plan, for the sizes that Compile planned. The strategy must state the
// layout problem, as Optimal and [layout.Given] do. Shapes must not depend on data, and the list of passes must be the
// built-in one.
func Certify(p *graphrun.Program) (*Certificate, error) {
	internal := p.Internal()
	model, err := internal.Model() // fails if the program was not compiled
	if err != nil {
		return nil, err
	}
	binding, options := internal.FirstBinding(), internal.Options()
	if err := checkCertifiable(internal); err != nil {
		return nil, err
	}
	cost, err := costInRebuilt(model, binding.Plan)
	if err != nil {
		return nil, err
	}
	// Solve the problem again, with a proof of the bound.
	withProof := wcsp.Options{Proof: true, TimeLimit: model.Problem.SearchTimeLimit()}
	proved, err := wcsp.Exact.Solve(model.WCSP, withProof)
	if err != nil {
		return nil, err
	}
	copies, err := certifyCopies(model, binding.Plan, withProof)
	if err != nil {
		return nil, err
	}
	g := binding.Graph
	certificate := &Certificate{
		Version: CertificateVersion,
		Graph:   CertifiedGraph{Name: g.Name},
		Options: CertifiedOptions{Strategy: options.Strategy.Name(), Sizes: g.BoundSizes(), Pins: pinsOf(g),
			NoFusion: options.NoFusion, Exact: options.Exact, MemoryLimit: options.MemoryLimit},
		Profile: options.Costs,
		Problem: model.WCSP,
		Solution: &wcsp.Solution{Version: wcsp.Version, Labels: slices.Clone(binding.Plan.Solution.Labels),
			Cost: cost, Bound: proved.Bound, Proof: proved.Proof},
		Copies: copies,
	}
	if certificate.Options.Sizes == nil {
		certificate.Options.Sizes = map[string]int{}
	}
	if certificate.Profile == nil {
		certificate.Profile = pricing.DefaultProfile()
	}
	if device := internal.Device(); device != nil {
		certificate.Options.Device = device.Name()
		certificate.Profile = certificate.Profile.WithDevice(device.Name(), device.Rates())
	}
	if certificate.Graph.Digest, err = digestOf(context.Background(), binding.WithAllConstants()); err != nil {
		return nil, err
	}
	if len(certificate.Profile.Prices) > 0 {
		regret, err := model.Regret(certificate.Solution.Labels, true)
		if err != nil {
			return nil, err
		}
		certificate.Regret = regret.Proof()
	}
	certificate.OptionsDigest = machine.DigestOfJSON(certificate.Options)
	certificate.ProfileDigest = machine.DigestOfJSON(certificate.Profile)
	return certificate, nil
}

// checkCertifiable returns an error if the plan of a program cannot be certified.
func checkCertifiable(internal *program.Program) error {
	options := internal.Options()
	switch {
	case internal.FirstBinding().Plan.Solution == nil:
		return fmt.Errorf("strategy %s does not solve the problem of layouts, so its plan cannot be certified; "+
			"use strategy optimal", options.Strategy.Name())
	case internal.HasOwnPasses():
		return errors.New("a program with a user-defined list of passes cannot be certified")
	case options.KeepGoing:
		return errors.New("a program with Options.KeepGoing cannot be certified")
	}
	return nil
}

// costInRebuilt returns the cost of a plan's labels in the problem that was rebuilt from the program. A label is the
// choice for one variable of the problem. The cost must be the cost in the problem that was solved. The costs are not
// compared for a plan with a preference for few copies, because its cost may include more expensive copies.
func costInRebuilt(model *layout.Model, plan *passes.Plan) (int64, error) {
	cost, err := model.WCSP.Cost(plan.Solution.Labels)
	if err != nil {
		return 0, fmt.Errorf("the problem differs from the problem that was solved: %w", err)
	}
	if plan.Preference == nil && cost != plan.Solution.Cost {
		return 0, fmt.Errorf("the problem differs from the problem that was solved: the labels cost %d picoseconds, not %d",
			cost, plan.Solution.Cost)
	}
	return cost, nil
}

// certifyCopies proves a bound on the weighted cost. The plan's preference has two sets of weights: the copies were
// chosen by the weights Made, and the bound is proved with the weights Proof. certifyCopies returns nil if the plan has
// no preference, or if the weights Proof give copies no weight.
func certifyCopies(model *layout.Model, plan *passes.Plan, withProof wcsp.Options) (*CertifiedCopies, error) {
	preference := plan.Preference
	if preference == nil || preference.Proof.Copy == 0 {
		return nil, nil
	}
	weighted, err := model.WithWeights(preference.Proof)
	if err != nil {
		return nil, err
	}
	solution, err := wcsp.Exact.Solve(weighted.Weighted, withProof)
	if err != nil {
		return nil, err
	}
	return &CertifiedCopies{Slack: preference.Slack, PlanWeights: preference.Made, Cost: preference.CostPS,
		Weights: preference.Proof, Bound: solution.Bound, Proof: solution.Proof}, nil
}

// Write writes the certificate as JSON.
func (c *Certificate) Write(w io.Writer) error {
	if c == nil || w == nil {
		return errors.New("the certificate or the writer is nil")
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// ReadCertificate reads a certificate that [Certificate.Write] wrote. It rejects unknown keys, missing parts and other
// versions. It does not check the proof: see [Verify].
func ReadCertificate(r io.Reader) (*Certificate, error) {
	if r == nil {
		return nil, errors.New("the reader is nil")
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	c := new(Certificate)
	if err := files.DecodeJSON(text, c); err != nil {
		return nil, fmt.Errorf("the file is not a certificate: %w", err)
	}
	return c, c.check()
}

// check checks that the certificate has all parts, and that each part is valid by itself.
func (c *Certificate) check() error {
	switch {
	case c.Version != CertificateVersion:
		return fmt.Errorf("the file is not a certificate of version %d: its version is %d", CertificateVersion, c.Version)
	case c.Profile == nil || c.Problem == nil || c.Solution == nil:
		return errors.New("the file is not a certificate: the profile, the problem or the solution is missing")
	case c.Solution.Proof == nil:
		return errors.New("the file is not a certificate: the solution has no proof")
	case c.Regret != nil && c.Regret.Proof == nil:
		return errors.New("the file is not a certificate: the bound on the regret has no proof")
	case c.Copies != nil && c.Copies.Proof == nil:
		return errors.New("the file is not a certificate: the bound on copies has no proof")
	}
	if err := c.Profile.Check(); err != nil {
		return fmt.Errorf("the file is not a certificate: the profile is invalid: %w", err)
	}
	if err := c.Problem.Validate(); err != nil {
		return fmt.Errorf("the file is not a certificate: %w", err)
	}
	if c.Copies != nil {
		if err := layout.CheckSlack(c.Copies.Slack); err != nil {
			return fmt.Errorf("the file is not a certificate: %w", err)
		}
	}
	return nil
}

// pinsOf lists the pins of a graph: pins in its file, and pins that were added later.
func pinsOf(g *graph.Graph) []CertifiedPin {
	list := []CertifiedPin{}
	graphdigest.VisitPins(g, func(name, pin string) { list = append(list, CertifiedPin{name, pin}) })
	return list
}

// addPins adds pins to a graph.
func addPins(g *graph.Graph, list []CertifiedPin) error {
	for _, certified := range list {
		pin, err := graph.ParsePin(certified.Pin)
		if err == nil {
			err = g.Pin(certified.Name, pin)
		}
		if err != nil {
			return fmt.Errorf("pin %s=%s: %w", certified.Name, certified.Pin, err)
		}
	}
	return nil
}

// Verdict is the result of checking a certificate.
type Verdict struct {
	Optimal   bool           `json:"optimal" doc:"Whether it is proved that the cost is the least among the forms considered, at the stated prices."`
	CostNS    float64        `json:"cost_ns" doc:"The recomputed cost of the plan, in nanoseconds."`
	BoundNS   float64        `json:"lower_bound_ns" doc:"The proved lower bound on the cost of any plan, in nanoseconds."`
	Strategy  string         `json:"strategy" doc:"The strategy that made the plan."`
	Digest    string         `json:"digest" doc:"The sha256 of the graph."`
	Sizes     map[string]int `json:"sizes" doc:"The sizes of symbols for which the certificate holds."`
	Prices    int            `json:"prices,omitzero" doc:"The number of measured prices of single nodes in the profile."`
	RegretNS  *float64       `json:"regret_ns,omitzero" doc:"The proved bound on the additional cost of the plan, compared with any other plan, at any prices within the intervals of the measured prices; left out if the certificate has no such proof."`
	Variables int            `json:"variables" doc:"The number of decisions."`
	Factors   int            `json:"factors" doc:"The number of cost tables."`
	// Copies is nil if the certificate proves nothing about copies.
	Copies *CopiesVerdict `json:"copies,omitzero" doc:"What is proved about copies; left out if the certificate has no such proof."`
}

// CopiesVerdict is the part of a verdict about the copies of a plan.
type CopiesVerdict struct {
	Slack       float64 `json:"slack" doc:"The share of the lower bound by which the plan may cost more."`
	Copies      int     `json:"copies" doc:"The recomputed number of copies of the plan."`
	Bytes       int64   `json:"bytes" doc:"The total bytes of the copies; the bytes of each copy are rounded up to whole units."`
	UnitBytes   int64   `json:"unit_bytes" doc:"The bytes of a unit; 0: memory does not count."`
	AtLeast     int     `json:"at_least" doc:"The proved lower bound on the number of copies of the plans within the slack."`
	Fewest      bool    `json:"fewest" doc:"Whether it is proved that no plan within the slack has fewer copies."`
	LeastMemory bool    `json:"least_memory" doc:"Whether it is proved that, among the plans of least cost with this number of copies, none has fewer bytes of copies (in units)."`
}

// Verify checks a certificate against a graph as it was loaded. With the sizes, pins and profile of the certificate, it
// states the layout problem as a weighted constraint satisfaction problem ([wcsp.Problem]). It compares this problem
// with the certificate's problem, entry by entry. It recomputes the cost of the chosen plan, and checks the proof of
// the bound with code that is independent of the solver. The error says which check fails. The graph is not changed.
//
// A valid certificate proves that no choice of the problem costs less at the prices of the profile. It does not prove
// that the problem states all choices, or that the prices are correct. If ctx ends first, the error wraps
// [context.Cause].
func Verify(ctx context.Context, g *graph.Graph, certificate *Certificate) (*Verdict, error) {
	if ctx == nil {
		return nil, program.ErrNoContext
	}
	verdict, err := certificate.verify(ctx, g)
	if ended := interrupt.Err(ctx); err != nil && ended != nil {
		return nil, fmt.Errorf("verifying the certificate: %w", ended)
	}
	return verdict, err
}

// verify is [Verify]. Its parts panic when the context ends (see [interrupt.Check]), and verify returns an error
// instead. It checks, in this order: the digests of the options and the profile, the problem of the graph, the solution
// and the proof of its bound, and the proof about copies.
func (c *Certificate) verify(ctx context.Context, g *graph.Graph) (_ *Verdict, err error) {
	defer interrupt.Catch(&err)
	interrupt.Check(ctx)
	if c == nil {
		return nil, errors.New("the certificate is nil")
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	if err := c.checkDigests(); err != nil {
		return nil, err
	}
	model, err := c.rebuild(ctx, g)
	if err != nil {
		return nil, err
	}
	problem := model.WCSP
	if err := checkSameProblem(problem, c.Problem); err != nil {
		return nil, fmt.Errorf("the problem of the certificate differs from the problem of the graph: %w", err)
	}
	if err := verify.Solution(ctx, problem, c.Solution); err != nil {
		return nil, err
	}
	solution := c.Solution
	verdict := &Verdict{Optimal: solution.Cost == solution.Bound, Prices: len(c.Profile.Prices),
		CostNS: float64(solution.Cost) / pricing.PSPerNS, BoundNS: float64(solution.Bound) / pricing.PSPerNS, Strategy: c.Options.Strategy,
		Digest: c.Graph.Digest,
		Sizes:  c.sizes(), Variables: len(problem.Variables), Factors: len(problem.Factors)}
	if c.Regret != nil {
		if err := c.verifyRegret(ctx, model); err != nil {
			return nil, fmt.Errorf("regret: %w", err)
		}
		verdict.RegretNS = new(float64(max(0, c.Regret.Cost-c.Regret.Bound)) / pricing.PSPerNS)
	}
	if c.Copies != nil {
		if verdict.Copies, err = c.verifyCopies(ctx, model); err != nil {
			return nil, fmt.Errorf("copies: %w", err)
		}
		verdict.Optimal, verdict.CostNS = c.Copies.Cost == solution.Bound, float64(c.Copies.Cost)/pricing.PSPerNS
	}
	return verdict, nil
}

// checkDigests returns an error if the options or the profile were changed after the certificate was made.
func (c *Certificate) checkDigests() error {
	for _, section := range []struct {
		name, certifiedDigest string
		content               any
	}{{"the options", c.OptionsDigest, c.Options}, {"the profile", c.ProfileDigest, c.Profile}} {
		if digest := machine.DigestOfJSON(section.content); digest != section.certifiedDigest {
			return fmt.Errorf("the digest of %s is %s, not the certified %s", section.name, shortDigest(digest),
				shortDigest(section.certifiedDigest))
		}
	}
	return nil
}

// shortDigest returns the first 12 digits of a digest, for messages.
func shortDigest(digest string) string { return digest[:min(12, len(digest))] }

// rebuild states the problem of a graph with the options of the certificate.
func (c *Certificate) rebuild(ctx context.Context, g *graph.Graph) (*layout.Model, error) {
	if g == nil {
		return nil, errors.New("the graph is nil")
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	pinned := g.Clone()
	if err := addPins(pinned, c.Options.Pins); err != nil {
		return nil, fmt.Errorf("the graph differs from the certified graph: %w", err)
	}
	if err := c.checkSymbols(pinned); err != nil {
		return nil, err
	}
	if err := c.checkDevice(); err != nil {
		return nil, err
	}
	options := program.Options{Sizes: c.Options.Sizes, NoFusion: c.Options.NoFusion, Exact: c.Options.Exact,
		Device: c.Options.Device, Costs: c.Profile, MemoryLimit: c.Options.MemoryLimit}
	planned, err := program.New(pinned, options)
	if err != nil {
		return nil, fmt.Errorf("the graph differs from the certified graph: %w", err)
	}
	binding, err := planned.Unplanned(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := digestOf(ctx, binding.Graph)
	if err != nil {
		return nil, err
	}
	if digest != c.Graph.Digest {
		return nil, fmt.Errorf("the graph differs from the certified graph: its digest is %s, not %s", shortDigest(digest),
			shortDigest(c.Graph.Digest))
	}
	problem, err := planned.ProblemOf(ctx, binding)
	if err != nil {
		return nil, err
	}
	problem.Graph.SetContext(ctx)
	return layout.NewModel(problem)
}

// checkSymbols returns an error if the graph lacks a symbol whose size the certificate states, or if the certificate
// states two sizes of a symbol.
func (c *Certificate) checkSymbols(g *graph.Graph) error {
	for _, name := range sorted.Keys(c.Options.Sizes) {
		if _, ok := g.SymbolNamed(name); !ok {
			return fmt.Errorf("the graph differs from the certified graph: the certificate is for %s=%d, and the graph "+
				"has no symbolic dimension %q; verify the file that was planned", name, c.Options.Sizes[name], name)
		}
	}
	for _, name := range sorted.Keys(c.Graph.Sizes) { // graph.sizes has no digest, and a symbol may have two names
		symbol, _ := g.SymbolNamed(name)
		if size, ok := c.Options.Sizes[symbol]; ok && size != c.Graph.Sizes[name] {
			return fmt.Errorf("the certificate contradicts itself: graph.sizes has %s=%d, and options.sizes has %s=%d", name,
				c.Graph.Sizes[name], symbol, size)
		}
	}
	return nil
}

// checkDevice returns an error if this machine does not have the device of the certificate. The kernels and prices of
// another device make another problem.
func (c *Certificate) checkDevice() error {
	device, err := devices.Open(c.Options.Device)
	if err != nil {
		return fmt.Errorf("the certificate is for a device: %w", err)
	}
	certified := c.Profile.Devices[c.Options.Device].Device
	if device != nil && device.Rates().Device != certified {
		return fmt.Errorf("the certificate is for the device %q, but the %s device of this machine is %q", certified,
			device.Name(), device.Rates().Device)
	}
	return nil
}

// checkSameProblem returns the first difference of two problems as an error.
func checkSameProblem(rebuilt, certified *wcsp.Problem) error {
	if len(rebuilt.Variables) != len(certified.Variables) || len(rebuilt.Factors) != len(certified.Factors) {
		return fmt.Errorf("the problem of the graph has %d variables and %d factors, not %d and %d", len(rebuilt.Variables),
			len(rebuilt.Factors), len(certified.Variables), len(certified.Factors))
	}
	for i, variable := range rebuilt.Variables {
		want := certified.Variables[i]
		if variable.Name != want.Name || !slices.Equal(variable.Labels, want.Labels) {
			return fmt.Errorf("variable %d is %q with labels %q, not %q with %q", i, variable.Name, variable.Labels, want.Name,
				want.Labels)
		}
	}
	for i, factor := range rebuilt.Factors {
		want := certified.Factors[i]
		if !slices.Equal(factor.Scope, want.Scope) || len(factor.Costs) != len(want.Costs) {
			return fmt.Errorf("factor %d is over variables %v, not %v", i, factor.Scope, want.Scope)
		}
		for k, cost := range factor.Costs {
			if cost != want.Costs[k] {
				return fmt.Errorf("factor %d%s: cost %d is %d picoseconds, not %d", i, scopeText(rebuilt, factor.Scope), k, cost,
					want.Costs[k])
			}
		}
	}
	return nil
}

// scopeText names the variables of a scope, after " of "; it returns "" for an empty scope.
func scopeText(problem *wcsp.Problem, scope []int) string {
	text := ""
	for i, variable := range scope {
		separator := " and "
		if i == 0 {
			separator = " of "
		}
		text += separator + strconv.Quote(problem.Variables[variable].Name)
	}
	return text
}

// sizes returns the sizes of the symbols of the graph and of its file.
func (c *Certificate) sizes() map[string]int {
	sizes := map[string]int{}
	maps.Copy(sizes, c.Graph.Sizes)
	maps.Copy(sizes, c.Options.Sizes)
	return sizes
}

// verifyRegret makes the problem of the regret from the model, and checks the proof of the bound.
func (c *Certificate) verifyRegret(ctx context.Context, model *layout.Model) error {
	if !slices.Equal(c.Regret.Labels, c.Solution.Labels) {
		return errors.New("its plan is not that of the solution")
	}
	problem, err := model.RegretProblem(c.Solution.Labels)
	if err != nil {
		return err
	}
	return verify.Solution(ctx, problem, c.Regret)
}

// verifyCopies checks the bound on the weighted cost: a weight times the cost, plus weights for each copy and for each
// unit of copied bytes. From this bound and the bound on the cost it derives the bounds on copies and memory.
func (c *Certificate) verifyCopies(ctx context.Context, model *layout.Model) (*CopiesVerdict, error) {
	certified, labels := c.Copies, c.Solution.Labels
	// First recompute the plan and its cost. The labels choose the implementations, and PlanWeights the copies.
	chosen, err := model.WithWeights(certified.PlanWeights)
	if err != nil {
		return nil, err
	}
	plan, err := chosen.Outcome(labels)
	if err != nil {
		return nil, err
	}
	if plan.CostPS != certified.Cost {
		return nil, fmt.Errorf("the plan costs %d picoseconds, not %d", plan.CostPS, certified.Cost)
	}
	// Then check the bound on the weighted cost.
	weighted, err := model.WithWeights(certified.Weights)
	if err != nil {
		return nil, err
	}
	weightedCost, err := weighted.Weighted.Cost(labels)
	if err != nil {
		return nil, err
	}
	err = verify.Solution(ctx, weighted.Weighted, &wcsp.Solution{Version: wcsp.Version, Labels: labels,
		Cost: weightedCost, Bound: certified.Bound, Proof: certified.Proof})
	if err != nil {
		return nil, err
	}
	// Last, derive the bounds for plans that cost at most the budget: the least cost plus the slack.
	budget := layout.Budget(c.Solution.Bound, certified.Slack)
	verdict := &CopiesVerdict{Slack: certified.Slack, Copies: plan.Inserted, UnitBytes: certified.Weights.UnitBytes,
		AtLeast: min(plan.Inserted, certified.Weights.MinCopiesWithin(certified.Bound, budget, weighted.MaxUnits()))}
	units := int64(0) // the copied bytes, in units of UnitBytes bytes
	for _, copied := range plan.Copies {
		units += certified.Weights.UnitsOf(copied.Bytes)
	}
	verdict.Bytes = units * verdict.UnitBytes
	verdict.Fewest = certified.Cost <= budget && verdict.AtLeast == verdict.Copies
	verdict.LeastMemory = verdict.Fewest && certified.Slack == 0 && verdict.UnitBytes > 0 &&
		units == certified.Weights.MinUnitsWithin(certified.Bound, budget, verdict.Copies)
	return verdict, nil
}
