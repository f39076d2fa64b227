package command

import (
	"os"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestShard(t *testing.T) {
	for _, c := range []struct {
		args         []string
		environment  map[string]string
		index, count int // count 0: an error
	}{
		{nil, nil, 0, 1},
		{[]string{"--shard", "2/8"}, map[string]string{"JOB_COMPLETION_INDEX": "5"}, 1, 8},
		{[]string{"--shard", "0/8"}, nil, 0, 0},
		{[]string{"--shard", "9/8"}, nil, 0, 0},
		{[]string{"--shard", "1/8x"}, nil, 0, 0},
		{[]string{"--shards", "8"}, map[string]string{"JOB_COMPLETION_INDEX": "5"}, 5, 8},
		{[]string{"--shards", "8"}, map[string]string{"AWS_BATCH_JOB_ARRAY_INDEX": "0"}, 0, 8},
		{[]string{"--shards", "8"}, map[string]string{"SLURM_ARRAY_TASK_ID": "8", "SLURM_ARRAY_TASK_MIN": "1"}, 7, 8},
		{[]string{"--shards", "8"}, map[string]string{"SLURM_ARRAY_TASK_ID": "7"}, 7, 8},
		{[]string{"--shards", "8"}, map[string]string{"SLURM_ARRAY_TASK_ID": "8"}, 0, 0},
		{[]string{"--shards", "8"}, map[string]string{"JOB_COMPLETION_INDEX": "x"}, 0, 0},
		{[]string{"--shards", "8"}, nil, 0, 0},
		{[]string{"--shards", "-1"}, nil, 0, 0},
	} {
		for _, names := range indexVariables {
			for _, name := range names {
				if name != "" {
					t.Setenv(name, "")
					require.NoError(t, os.Unsetenv(name))
				}
			}
		}
		for name, value := range c.environment {
			t.Setenv(name, value)
		}
		var s Shard
		cmd := &cobra.Command{}
		s.AddFlags(cmd, "inputs")
		require.NoError(t, cmd.ParseFlags(c.args))
		err := s.Parse()
		require.Equal(t, c.count == 0, err != nil, "%v %v: %v", c.args, c.environment, err)
		if err == nil {
			assert.Equal(t, []int{c.index, c.count}, []int{s.Index, s.Count}, "%v %v", c.args, c.environment)
		}
	}
}
