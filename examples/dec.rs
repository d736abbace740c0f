use parser::*;
fn main(){ let rt=tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
 let sel=plan::Selection{actions:true,notifications:false,deltas:true,native_deltas:true,blocks:false,filter:filter::Filter::new(vec![],vec![]),part_bytes:1<<20};
 let st=event::Style{deserializer:abi::Deserializer::Compiled,code_bytes:false,no_abi_dead_letters:false};
 let mut o=std::io::BufWriter::new(std::io::stdout());
 let t=std::time::Instant::now();
 rt.block_on(capture::decode::decode(std::path::Path::new(&std::env::args().nth(1).unwrap()),sel,st,vec![],&mut o)).unwrap();
 eprintln!("{:?}",t.elapsed());
}
