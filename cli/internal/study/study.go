// Package study is the command that compares strategies over many graphs, sizes and conditions.
//
// A [Study] is a file that lists models, strategies and conditions. [Study.tasks] returns its independent tasks: a task
// for each model, set of sizes, condition and number of threads. A task is named by the digest of everything that its
// result depends on. The [Result] of the task is a file with this name. Therefore a study can be interrupted,
// continued, and divided among machines. [Document] has the tables, which are computed from the results.
package study

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/graphrun/graphrun/cli/internal/command"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/cli/internal/format"
	"github.com/graphrun/graphrun/internal/files"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/passes/layout"
)

// Version is the version of study files.
const Version = 1

// Study is a study file.
type Study struct {
	Version    int         `json:"version" doc:"The version of the file: 1."`
	Name       string      `json:"name" doc:"The name of the study."`
	Models     []Model     `json:"models" doc:"The models."`
	Strategies []string    `json:"strategies,omitempty" doc:"The strategies; all if left out."`
	Conditions []Condition `json:"conditions" doc:"The conditions under which every model is planned."`
	Runs       int         `json:"runs,omitzero" doc:"The measured runs of each plan, where conditions have threads; 0: 20."`
	Seed       int         `json:"seed,omitzero" doc:"The seed of generated inputs and of the order of measured runs."`
	// SolverTimeLimit is a duration such as 10s; empty is the default of the solver.
	SolverTimeLimit string `json:"solver_time_limit,omitzero" doc:"The most time for each search, such as 10s, the default."`

	limit time.Duration
}

// Model is a model file with the sizes for which it is planned.
type Model struct {
	Name string           `json:"name,omitzero" doc:"The name in tables; the file's name, or its folder's for model.onnx, if left out."`
	File string           `json:"file" doc:"The path of the graph file or model, within the folder of the models."`
	Dims []map[string]int `json:"dims,omitempty" doc:"Sizes of symbols, one object for each task; left out: the assumed sizes."`
}

// Condition has the options of planning.
type Condition struct {
	Name    string `json:"name" doc:"The name in tables."`
	Profile string `json:"profile,omitzero" doc:"The prices: a shipped profile (avx512, avx2, portable), or a file beside the study; the shipped profile of the machine if left out."`
	// Copies is a factor on the prices of copies and of transposed reading; 0 means 1.
	Copies float64 `json:"copies,omitzero" doc:"A factor on the prices of copies and of transposed reading; 1 if left out."`
	// EqualLayouts prices ops on images equally in row-major and channels-last layout: see equalize.
	EqualLayouts bool  `json:"equal_layouts,omitzero" doc:"Whether ops on images cost in each layout what they cost in the better of row-major and channels-last."`
	NoFusion     bool  `json:"no_fusion,omitzero" doc:"Whether each node is a step of its own."`
	Exact        bool  `json:"exact,omitzero" doc:"Whether implementations with another formula than the definition are excluded."`
	Threads      []int `json:"threads,omitempty" doc:"Numbers of workers with which the plans are measured; left out: they are not."`

	profile *machine.Profile
}

// maxStudyBytes bounds the size of study files.
const maxStudyBytes = 16 << 20

// read reads a study file and its profiles.
func read(ext *command.Extensions, path string) (*Study, error) {
	f, info, err := files.OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > maxStudyBytes {
		return nil, fmt.Errorf("%s: a study has at most %s", path, format.Bytes(maxStudyBytes))
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	s := new(Study)
	if err := files.JSON(text, s); err != nil {
		return nil, fmt.Errorf("%s: not a study: %w", path, err)
	}
	if err := s.check(ext, filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// check validates the study, completes its defaults and reads its profiles.
func (s *Study) check(ext *command.Extensions, folder string) error {
	switch {
	case s.Version != Version:
		return fmt.Errorf("version %d: want %d", s.Version, Version)
	case len(s.Models) == 0:
		return errors.New("models: the list is empty")
	case len(s.Conditions) == 0:
		return errors.New("conditions: the list is empty")
	case s.Runs < 0:
		return fmt.Errorf("runs: %d: want a positive number", s.Runs)
	}
	if s.Runs == 0 {
		s.Runs = 20
	}
	if s.Strategies == nil {
		s.Strategies = ext.StrategyNames()
	}
	for i, name := range s.Strategies {
		if err := ext.CheckStrategy(name); err != nil {
			return fmt.Errorf("strategies[%d]: %w", i, err)
		}
		if slices.Contains(s.Strategies[:i], name) {
			return fmt.Errorf("strategies[%d]: %q is listed twice", i, name)
		}
	}
	if s.limit = layout.SolveLimit; s.SolverTimeLimit != "" {
		var err error
		if s.limit, err = time.ParseDuration(s.SolverTimeLimit); err != nil || s.limit < 0 {
			return fmt.Errorf("solver_time_limit: %q: want a time such as 10s", s.SolverTimeLimit)
		}
	}
	if err := s.checkModels(); err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		if err := c.check(folder); err != nil {
			return fmt.Errorf("conditions[%d]: %w", i, err)
		}
		if names[c.Name] {
			return fmt.Errorf("conditions[%d]: two conditions are named %q", i, c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

// checkModels validates the models and completes their names and sizes.
func (s *Study) checkModels() error {
	names := map[string]bool{}
	for i := range s.Models {
		m := &s.Models[i]
		if !filepath.IsLocal(filepath.FromSlash(m.File)) {
			return fmt.Errorf("models[%d]: file: %q: want a path within the folder of the models", i, m.File)
		}
		if m.Name == "" {
			m.Name = nameOf(m.File)
		}
		if names[m.Name] {
			return fmt.Errorf("models[%d]: two models are named %q", i, m.Name)
		}
		names[m.Name] = true
		for k, dims := range m.Dims {
			for name, n := range dims {
				if n < 0 {
					return fmt.Errorf("models[%d]: dims[%d]: %s: %d: want 0 or more", i, k, name, n)
				}
			}
		}
		if len(m.Dims) == 0 {
			m.Dims = []map[string]int{{}}
		}
	}
	return nil
}

// nameOf returns the base name of a model file, or that of its folder for the file model.onnx.
func nameOf(path string) string {
	base, folder := filepath.Base(path), filepath.Base(filepath.Dir(path))
	if base == "model.onnx" && folder != "." {
		return folder
	}
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// check validates a condition and reads its profile.
func (c *Condition) check(folder string) (err error) {
	switch {
	case c.Name == "":
		return errors.New("name: it is empty")
	case !(c.Copies >= 0) || math.IsInf(c.Copies, 0):
		return fmt.Errorf("copies: %g: want a positive number", c.Copies)
	case c.EqualLayouts && len(c.Threads) > 0:
		return errors.New("threads: plans with equal_layouts have no kernels and cannot be measured")
	}
	for i, n := range c.Threads {
		if n < 1 || slices.Contains(c.Threads[:i], n) {
			return fmt.Errorf("threads[%d]: %d: want positive numbers, each once", i, n)
		}
	}
	switch shipped := machine.ShippedProfiles(); {
	case c.Profile == "":
		c.profile = machine.DefaultProfile()
	case slices.Contains(shipped, c.Profile):
		c.profile = machine.ShippedProfile(c.Profile)
	case !filepath.IsLocal(filepath.FromSlash(c.Profile)):
		return fmt.Errorf("profile: %q: want one of %s, or a path within the folder of the study", c.Profile,
			strings.Join(shipped, ", "))
	default:
		path := filepath.Join(folder, filepath.FromSlash(c.Profile))
		if c.profile, err = machine.ReadProfile(path); err != nil {
			return fmt.Errorf("profile: %w", files.InFile(path, err))
		}
	}
	if c.Copies == 0 {
		c.Copies = 1
	}
	c.profile = c.profile.ScaleCopies(c.Copies)
	return c.profile.Check()
}

// digestOfFile returns the sha256 of a file in hexadecimal digits.
func digestOfFile(path string) (string, error) {
	f, _, err := files.OpenRegular(path)
	if err != nil {
		return "", exit.Wrong(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
