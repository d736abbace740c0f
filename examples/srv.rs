use parser::capture::{file::Capture, serve::*};
fn main(){ let rt=tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
 rt.block_on(async{ let c=Capture::load(std::path::Path::new(&std::env::args().nth(1).unwrap())).unwrap();
 let l=Listener::bind(&std::env::args().nth(2).unwrap()).await.unwrap();
 let mut s=Server::start(&c,l,ServeOptions::default()).unwrap(); eprintln!("{}",s.url()); s.wait().await; }); }
