package onnx
import ("testing";"path/filepath";"fmt";"github.com/graphrun/graphrun/graph")
func TestDeadTmp(t *testing.T){
 for _,pat:=range []string{"/tmp/dyn/*/model.onnx","/tmp/nets/*/model.onnx",casesDir+"/*/*/model.onnx"}{
 fs,_:=filepath.Glob(pat)
 for _,f:=range fs{
  m,err:=Open(f); if err!=nil{continue}
  g,err:=m.Graph(Options{Default:64})
  if err!=nil{ continue}
  used:=map[*graph.Value]bool{}
  for _,o:=range g.Outputs{used[o.Value]=true}
  dead:=0; ops:=""
  for i:=len(g.Nodes)-1;i>=0;i--{ n:=g.Nodes[i]; u:=false; for _,v:=range n.Out{u=u||used[v]}; if !u {dead++; ops+=" "+n.Op.Name; continue}; for _,a:=range n.In{used[a.Value]=true}; for _,v:=range n.Refs(){used[v]=true}}
  if dead>0{fmt.Println(f,dead,len(g.Nodes),ops)}
 }}
}
