package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/graphrun/graphrun"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/graphdigest"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/program"
	"github.com/graphrun/graphrun/passes"
	"github.com/graphrun/graphrun/passes/layout"
	"github.com/graphrun/graphrun/passes/layout/wcsp"
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
	Profile       *layout.Profile  `json:"profile" doc:"The prices of the machine."`
	ProfileDigest string           `json:"profile_digest" doc:"The sha256 of the profile's canonical JSON (RFC 8785), in hexadecimal digits, as plan prints it."`
	Problem       *wcsp.Problem    `json:"problem" doc:"The problem of layouts: the choices and their costs."`
	Solution      *wcsp.Solution   `json:"solution" doc:"The chosen plan, a lower bound on the cost of all plans, and its proof."`
	Copies        *CertifiedCopies `json:"copies,omitzero" doc:"The proof about copies and memory; left out for strategies other than optimal."`
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
	internal := (*program.Program)(p)
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
		certificate.Profile = layout.DefaultProfile()
	}
	if device := internal.Device(); device != nil {
		certificate.Options.Device = device.Name()
		certificate.Profile = certificate.Profile.WithDevice(device.Name(), device.Rates())
	}
	if certificate.Graph.Digest, err = digestOf(context.Background(), binding.WithAllConstants()); err != nil {
		return nil, err
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
